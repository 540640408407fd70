//! Sockets to the host of a virtual machine.

#![expect(unsafe_code, reason = "the address of such a socket is a C structure")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Connections that may wait. One server asks, so few are enough.
const WAITING: libc::c_int = 8;

/// Begins to connect to a port of the host; the connection stands when the descriptor is writable.
pub(crate) fn connect_vsock(port: u32) -> io::Result<OwnedFd> {
    let socket = stream_socket()?;
    let (address, length) = address(libc::VMADDR_CID_HOST, port)?;
    // SAFETY: the length passed to the call is the length of the address, which outlives the call.
    let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    match io::Error::last_os_error() {
        _ if result == 0 => Ok(socket),
        error if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
        error => Err(error),
    }
}

/// Listens at a port of this machine.
pub(crate) fn listen_vsock(port: u32) -> io::Result<OwnedFd> {
    let socket = stream_socket()?;
    let (address, length) = address(libc::VMADDR_CID_ANY, port)?;
    // SAFETY: the length passed to the call is the length of the address, which outlives the call.
    if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    rustix::net::listen(&socket, WAITING)?;
    Ok(socket)
}

/// Accepts the next connection to such a port if it comes from the host, and closes any other. Does not block.
pub(crate) fn accept_host(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let (mut caller, mut length) = address(0, 0)?;
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the length passed to the call is the length of the address, which outlives the call.
    let number =
        unsafe { libc::accept4(listener.as_raw_fd(), (&raw mut caller).cast(), &raw mut length, flags) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor is owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    // The address is the kernel's word, not the caller's: a process of the machine can't claim to be the host.
    Ok((caller.svm_cid == libc::VMADDR_CID_HOST).then_some(socket))
}

fn stream_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes numbers only.
    let number = unsafe { libc::socket(libc::AF_VSOCK, kind, 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn address(machine: u32, port: u32) -> io::Result<(libc::sockaddr_vm, libc::socklen_t)> {
    // SAFETY: the structure is plain data, for which zero is valid.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::sa_family_t::try_from(libc::AF_VSOCK).map_err(io::Error::other)?;
    address.svm_cid = machine;
    address.svm_port = port;
    let length = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
    Ok((address, length))
}
