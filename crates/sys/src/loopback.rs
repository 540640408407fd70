//! Raises the loopback interface of a network namespace.

#![expect(unsafe_code, reason = "interface flags are set by ioctl, which takes a C structure")]

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Brings `lo` up in this process's network namespace.
pub fn raise_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the structure is plain data, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
        // A C character has a sign on some processors only.
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).map_err(io::Error::other)?;
    // SAFETY: the structure names the interface and its flags and outlives the call. Which integer type the number of the
    // call has depends on the C library.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
