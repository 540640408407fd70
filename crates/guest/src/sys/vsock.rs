//! Sockets to the host of a virtual machine.

#![expect(unsafe_code, reason = "the address of such a socket is a C structure")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Begins to connect to a port of the host; the connection stands when the descriptor is writable.
pub(crate) fn connect_vsock(port: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes numbers only.
    let number = unsafe { libc::socket(libc::AF_VSOCK, kind, 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor is owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: the structure is plain data, for which zero is valid.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::sa_family_t::try_from(libc::AF_VSOCK).map_err(io::Error::other)?;
    address.svm_cid = libc::VMADDR_CID_HOST;
    address.svm_port = port;
    let length = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
    // SAFETY: the address is as long as the call is told and outlives it.
    let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    match io::Error::last_os_error() {
        _ if result == 0 => Ok(socket),
        error if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
        error => Err(error),
    }
}
