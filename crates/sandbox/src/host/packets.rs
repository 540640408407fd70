//! Messages between processes of the host: JSON packets with descriptors over a SOCK_SEQPACKET socket.
//!
//! The same two functions serve a process that blocks and, on a non-blocking socket, one that does not.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};

/// The longest packet: a launch plan with ten paths of 4,096 bytes stays below it.
pub(crate) const PACKET_BYTES: usize = 64 * 1024;
/// The most descriptors in one packet.
const PACKET_FDS: usize = 5;

/// A packet as it arrived.
pub(crate) struct SocketPacket {
    /// Content of the packet; empty when the other side has closed the socket.
    pub(crate) bytes: Vec<u8>,
    /// Descriptors that came with the packet.
    pub(crate) fds: Vec<OwnedFd>,
    /// True if descriptors came that this process had no room for.
    pub(crate) lost_fds: bool,
}

impl SocketPacket {
    /// The packet that stands for the end of the socket.
    pub(crate) fn end() -> Self {
        Self { bytes: Vec::new(), fds: Vec::new(), lost_fds: false }
    }

    /// True if the other side closed the socket. No sender sends an empty packet without a descriptor.
    pub(crate) fn is_end(&self) -> bool {
        self.bytes.is_empty() && self.fds.is_empty() && !self.lost_fds
    }
}

pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<SocketPacket> {
    // A cut list of descriptors would put one in the wrong place.
    match receive_lossy(socket)? {
        packet if packet.lost_fds => Err(io::Error::from_raw_os_error(libc::EMSGSIZE)),
        packet => Ok(packet),
    }
}

/// Like [`receive`], for a receiver that can do without the descriptors.
pub(crate) fn receive_lossy(socket: BorrowedFd<'_>) -> io::Result<SocketPacket> {
    let mut bytes = vec![0; PACKET_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    // A cut packet would decode as another message. The descriptors that did arrive close when `ancillary` is dropped.
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let fds = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    bytes.truncate(received.bytes);
    Ok(SocketPacket { bytes, fds, lost_fds: received.flags.contains(ReturnFlags::CTRUNC) })
}

/// Writes a message as JSON.
pub(crate) fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    serde_json::to_vec(message).map_err(io::Error::other)
}

/// Reads a message.
pub(crate) fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(io::Error::other)
}
