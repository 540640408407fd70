//! System calls of the first process of a virtual machine only: its namespaces and signals.

#![expect(unsafe_code, reason = "unshare has no safe wrapper")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::signals;

/// Leaves the kernel's first namespaces of networks, names and shared memory, and the devices that modules put there.
pub(crate) fn own_surroundings() -> io::Result<()> {
    let flags = libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    // SAFETY: takes a number only; none of these flags changes what other code of the process relies on.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The end of children, and the order to end that a virtual keyboard gives, as something to poll.
#[derive(Debug)]
pub(crate) struct MachineSignals(OwnedFd);

impl MachineSignals {
    /// Blocks both signals in this single-threaded process and opens the descriptor.
    pub(crate) fn open() -> io::Result<Self> {
        signals::descriptor(&[libc::SIGCHLD, libc::SIGINT]).map(Self)
    }

    /// Discards the signals that arrived. Returns true if one of them was the order to end.
    pub(crate) fn ordered_to_end(&self) -> bool {
        signals::arrived(&self.0).contains(&libc::SIGINT.cast_unsigned())
    }
}

impl AsFd for MachineSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
