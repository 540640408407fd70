//! The system-call filter: one table (`sandyard_sys::seccomp`) holds the rule for each call, `program.rs` compiles it to BPF.
//!
//! Three profiles from the same rows: the job's, and narrower ones for keeper and init. In all of them a foreign
//! architecture kills the process, a number the table doesn't know answers ENOSYS (programs then fall back to older
//! calls), and a known call that is refused answers EPERM.

mod program;

pub(crate) use sandyard_sys::seccomp::FilterProfile;
use sandyard_sys::seccomp::table;

use crate::boot::BootFailure;

/// Installs the filter in this thread and its descendants. Needs no-new-privileges. Comes after all other steps of confinement,
/// some of which it refuses.
pub(crate) fn install(profile: FilterProfile) -> Result<(), BootFailure> {
    let program = program::compile(&table::rules(profile))
        .ok_or_else(|| BootFailure::plain("seccomp", "the filter is too long for the kernel"))?;
    seccompiler::apply_filter(&program)
        .map_err(|error| BootFailure::plain("seccomp", format!("install the filter: {error}")))
}

#[cfg(test)]
mod tests;
