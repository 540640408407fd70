//! Messages between our own processes in a machine: JSON and descriptors over a `SOCK_SEQPACKET` pair.
//!
//! One message is one packet. A message that is too long for a packet travels in a memory file, whose descriptor
//! comes first, and the packet is [`IN_MEMORY_FILE`] instead. This module does not know the meaning of the messages.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::MemfdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::{LOCAL_MESSAGE_BYTES, PACKET_BYTES, PACKET_FDS};

/// The packet whose message is in the memory file that comes with it. Not JSON, so no message can look like it.
const IN_MEMORY_FILE: &[u8] = b"@";

/// A parsed message and the descriptors that came with its packet.
#[derive(Debug)]
pub(crate) struct ReceivedPacket<T> {
    pub(crate) message: T,
    /// The descriptors that came with it.
    pub(crate) fds: Vec<OwnedFd>,
}

/// A message ready to be sent, once or again after `WouldBlock`.
#[derive(Debug)]
pub(crate) struct LocalPacket {
    body: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl LocalPacket {
    /// Encodes a message. At most [`PACKET_FDS`] descriptors, one fewer if the message is long.
    pub(crate) fn new<T: Serialize>(message: &T, fds: Vec<OwnedFd>) -> io::Result<Self> {
        let body = serde_json::to_vec(message)?;
        if body.len() <= PACKET_BYTES {
            return Self::checked(body, fds);
        }
        let mut all = vec![memory_file(&body)?];
        all.extend(fds);
        Self::checked(IN_MEMORY_FILE.to_vec(), all)
    }

    fn checked(body: Vec<u8>, fds: Vec<OwnedFd>) -> io::Result<Self> {
        if fds.len() > PACKET_FDS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one packet"));
        }
        Ok(Self { body, fds })
    }

    /// Sends the packet without waiting. Returns `WouldBlock` if the receiver's queue is full.
    pub(crate) fn send(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let fds: Vec<_> = self.fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::Error::other("descriptors don't fit"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(socket, &[IoSlice::new(&self.body)], &mut control, flags)
        })?;
        Ok(())
    }
}

/// Receives one message without waiting. Returns `WouldBlock` if there is none, and `None` if the sender is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<ReceivedPacket<T>>> {
    let mut buffer = vec![0; PACKET_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut buffer)], &mut control, flags)
    })?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    // Of a cut packet neither the message nor the number of its descriptors can be trusted.
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet is too long"));
    }
    buffer.truncate(received.bytes);
    decode(&buffer, fds).map(Some)
}

/// A connected pair of non-blocking packet sockets.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// A memory file with this content, at its start.
pub(crate) fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create("sandyard", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(content)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// Reads a file from its current position to its end. Rejects more than `limit` bytes.
pub(crate) fn read_bounded(file: OwnedFd, limit: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::from(file).take(limit as u64 + 1).read_to_end(&mut content)?;
    if content.len() > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {limit} bytes")));
    }
    Ok(content)
}

/// Reads a memory file that another process may hold too, leaving its position alone.
pub(crate) fn read_memory_file(file: &File) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    // Checked before the allocation. A file that shrinks afterwards makes the read fail, not the process.
    if length > LOCAL_MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    let mut content = vec![0; length];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}

fn decode<T: DeserializeOwned>(body: &[u8], mut fds: Vec<OwnedFd>) -> io::Result<ReceivedPacket<T>> {
    if body != IN_MEMORY_FILE {
        return Ok(ReceivedPacket { message: serde_json::from_slice(body)?, fds });
    }
    if fds.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a long message came without its file"));
    }
    let file = File::from(fds.remove(0));
    Ok(ReceivedPacket { message: serde_json::from_slice(&read_memory_file(&file)?)?, fds })
}

#[cfg(test)]
#[path = "packets_tests.rs"]
mod tests;
