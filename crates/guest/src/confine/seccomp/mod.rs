//! The system-call filter: one table (`table.rs`) says what each call gets, `program.rs` turns it into BPF.
//!
//! Three profiles from the same rows: the job's, and narrower ones for keeper and init. In all of them a foreign
//! architecture kills the process, a number the table doesn't know answers ENOSYS (programs then fall back to older
//! calls), and a known call that is refused answers EPERM. `outer.rs` makes the wider filter that a container runtime puts
//! around the whole machine, and `docs/seccomp.md` is written from the rows (`document.rs`).

mod outer;
mod program;
mod table;

pub use outer::OuterProfile;

use crate::boot::BootFailure;

/// Whose filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// The spawner and everything the job runs.
    Job {
        /// Whether user namespaces may be made.
        nested_user_namespaces: bool,
    },
    /// Keeper: no fork, no exec.
    Keeper {
        /// Whether its link is a socket to the host of a virtual machine.
        host_sockets: bool,
    },
    /// Init: keeper's calls, and what it takes to start keeper again.
    Init {
        /// As for keeper, which inherits this filter.
        host_sockets: bool,
    },
}

/// Installs the filter in this thread and its descendants.
pub(crate) fn install(profile: Profile) -> Result<(), BootFailure> {
    let program = program::compile(&table::rules(profile))
        .ok_or_else(|| BootFailure::plain("seccomp", "the filter is too long for the kernel"))?;
    seccompiler::apply_filter(&program)
        .map_err(|error| BootFailure::plain("seccomp", format!("install the filter: {error}")))
}

#[cfg(test)]
mod document;
#[cfg(test)]
mod tests;
