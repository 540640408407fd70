//! System-call filters as data: `table` lists the rule for each call, `outer` builds from it the document that container
//! runtimes read. The guest compiles the same table into BPF; `docs/seccomp.md` is generated from it.

mod outer;
pub mod table;

pub use outer::{OuterArgument, OuterCalls, OuterProfile};
pub use table::FilterProfile;

#[cfg(test)]
mod document_tests;
