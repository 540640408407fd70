//! Packets with descriptors over a SOCK_SEQPACKET socket.
//!
//! The same two functions serve the blocking launcher and, on a non-blocking socket, the driver.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The longest packet: a launch plan with ten paths of 4,096 bytes stays below it.
const PACKET_BYTES: usize = 64 * 1024;
/// The most descriptors in one packet.
const PACKET_FDS: usize = 5;

/// A packet as it arrived.
pub(in super::super) struct LauncherPacket {
    /// Content of the packet; empty when the other side has closed the socket.
    pub(in super::super) bytes: Vec<u8>,
    /// Descriptors that came with the packet.
    pub(in super::super) fds: Vec<OwnedFd>,
}

impl LauncherPacket {
    /// True if the other side closed the socket. No sender sends an empty packet without a descriptor.
    pub(in super::super) fn is_end(&self) -> bool {
        self.bytes.is_empty() && self.fds.is_empty()
    }
}

pub(in super::super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

pub(in super::super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(in super::super) fn receive(socket: BorrowedFd<'_>) -> io::Result<LauncherPacket> {
    let mut bytes = vec![0; PACKET_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    // A cut packet would decode as another message, and a cut list of descriptors would put one in the wrong
    // place. The descriptors that did arrive close when `ancillary` is dropped.
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
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
    Ok(LauncherPacket { bytes, fds })
}
