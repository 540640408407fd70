//! Descriptors by number: taking inherited ones, placing them for an exec, closing the rest.

#![expect(unsafe_code, reason = "descriptors by number have no owner that the compiler could check")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use tokio::io::unix::AsyncFd;

/// Takes ownership of a descriptor this process was born with, and marks it close-on-exec.
/// Each number may be taken once; the caller's boot contract lists the numbers that exist.
pub(crate) fn take(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_SETFD takes no pointers; an unused number is answered with EBADF.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and by the boot contract nothing else in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Registers a descriptor with the present tokio runtime.
pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` gives the same open descriptor for as long as it lives, and the `AsyncFd` owns it.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

/// Marks every descriptor from `first` up close-on-exec.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    close_range(first, libc::CLOSE_RANGE_CLOEXEC)
}

/// Makes these descriptors 0, 1, 2 … in this order, open across an exec, and closes all others. Only for a child that
/// is about to exec: whatever owned the old numbers must not be used or dropped afterwards.
pub(crate) fn keep_only(descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let count = RawFd::try_from(descriptors.len()).map_err(io::Error::other)?;
    let mut copies = Vec::with_capacity(descriptors.len());
    for descriptor in descriptors {
        // Copied beyond all targets first, so that no copy overwrites a descriptor that is still to be placed.
        // SAFETY: F_DUPFD takes numbers only.
        let copy = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD, count) };
        copies.push(if copy < 0 { return Err(io::Error::last_os_error()) } else { copy });
    }
    for (copy, target) in copies.into_iter().zip(0..) {
        // SAFETY: takes numbers only; by this function's contract the old owner of `target` is never used again.
        if unsafe { libc::dup2(copy, target) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    close_range(count.cast_unsigned(), 0)
}

fn close_range(first: u32, flags: u32) -> io::Result<()> {
    // SAFETY: takes numbers only. When descriptors are closed, the caller is a child about to exec, in which
    // nothing uses them any more.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
