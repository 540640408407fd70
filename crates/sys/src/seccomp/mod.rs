//! System-call filters as data: `table` lists the rule for each call, `outer` builds from it the document that container
//! runtimes read, and `program` compiles it to BPF. `docs/seccomp.md` is generated from it.
//!
//! In every profile a foreign architecture kills the process, a number the table doesn't know answers ENOSYS (programs then fall
//! back to older calls), and a known call that is refused answers EPERM.

mod outer;
mod program;
pub mod table;

pub use outer::{OuterArgument, OuterCalls, OuterProfile};
pub use program::{InstallFilterError, install};
pub use table::FilterProfile;

#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod program_tests;
