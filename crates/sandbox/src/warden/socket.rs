//! The socket between server and warden, for code that awaits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::Serialize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::host::packets::{self, PACKET_BYTES, SocketPacket};
use crate::host::sys::readiness;

/// One end of the socket. Packets are sent whole, so any number of tasks may send at once.
pub(super) struct WardenSocket {
    fd: AsyncFd<OwnedFd>,
}

impl WardenSocket {
    /// Must be called within a tokio runtime.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd: readiness::watch(fd, Interest::READABLE | Interest::WRITABLE)? })
    }

    /// Sends a message, with a descriptor if it has one. Waits while the other side does not read.
    pub(super) async fn send<T: Serialize>(&self, message: &T, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = encode(message)?;
        let fds: Vec<_> = fd.into_iter().collect();
        let send = |socket: &OwnedFd| packets::send(socket.as_fd(), &bytes, &fds);
        self.fd.async_io(Interest::WRITABLE, send).await
    }

    /// Sends a message if the socket has room now.
    pub(super) fn try_send<T: Serialize>(&self, message: &T) -> io::Result<()> {
        packets::send(self.fd.get_ref().as_fd(), &encode(message)?, &[])
    }

    /// Closes the socket for both sides, whoever else holds it.
    pub(super) fn shut_down(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self.fd.get_ref(), rustix::net::Shutdown::Both)?)
    }

    /// Returns the next packet. Cancelling it loses none.
    pub(super) async fn receive(&self) -> io::Result<SocketPacket> {
        let receive = |socket: &OwnedFd| packets::receive_lossy(socket.as_fd());
        match self.fd.async_io(Interest::READABLE, receive).await {
            // The other side ended before it had read everything.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(SocketPacket::end()),
            received => received,
        }
    }
}

fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let bytes = packets::encode(message)?;
    // The receiver would take a longer one for broken and end.
    if bytes.len() > PACKET_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a message for the other process is too long",
        ));
    }
    Ok(bytes)
}
