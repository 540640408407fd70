//! The system-call filter: `sandyard_sys::seccomp` holds the rule for each call and compiles it.

pub(crate) use sandyard_sys::seccomp::FilterProfile;

use crate::boot::BootFailure;

/// Installs the filter in this thread and its descendants. Needs no-new-privileges. Comes after all other steps of confinement,
/// some of which it refuses.
pub(crate) fn install(profile: FilterProfile) -> Result<(), BootFailure> {
    sandyard_sys::seccomp::install(profile).map_err(|error| BootFailure::plain("seccomp", error.to_string()))
}
