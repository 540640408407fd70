//! What only the first process of a virtual machine does: namespaces, the loopback interface, its signals.

#![expect(unsafe_code, reason = "interface flags are set by ioctl, signals are C structures")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::signals;

/// Leaves the kernel's first namespaces of networks, names and shared memory, and with them whatever modules put there.
pub(crate) fn own_surroundings() -> io::Result<()> {
    let flags = libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    // SAFETY: takes a number only; none of these flags changes what other code of the process relies on.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Brings `lo` up in this process's network namespace.
pub fn raise_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the structure is plain data, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = byte.cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).map_err(io::Error::other)?;
    // SAFETY: the structure names the interface and its flags and outlives the call. Which integer type the number of the
    // call has depends on the C library.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The end of children, and the order to end that a virtual keyboard gives, as something to poll.
#[derive(Debug)]
pub(crate) struct MachineSignals(OwnedFd);

impl MachineSignals {
    /// Blocks both signals in this single-threaded process and opens the descriptor.
    pub(crate) fn open() -> io::Result<Self> {
        signals::descriptor(&[libc::SIGCHLD, libc::SIGINT]).map(Self)
    }

    /// Forgets the signals that arrived; whether one was the order to end.
    pub(crate) fn ordered_to_end(&self) -> bool {
        signals::arrived(&self.0).contains(&libc::SIGINT.cast_unsigned())
    }
}

impl AsFd for MachineSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
