//! The one call of keeper that the compiler can't vouch for.
#![expect(unsafe_code, reason = "registering a descriptor with the runtime is unsafe for types that could change theirs")]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Makes a descriptor non-blocking and ready to be waited on.
pub(super) fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    // SAFETY: an `OwnedFd` is the same open descriptor from here until it is dropped, which `AsyncFd` does itself after
    // deregistering it; nothing hands it out by value.
    Ok(unsafe { AsyncFd::register(fd) }?)
}
