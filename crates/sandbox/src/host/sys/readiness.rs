//! Waiting for descriptors that tokio has no type for.
#![expect(unsafe_code, reason = "tokio can't see that an OwnedFd stays open")]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a descriptor until the result is dropped.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is a valid descriptor, stays open until dropped, and is never replaced: nobody takes a mutable
    // reference to it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}
