//! A ZeroMQ connection as its client: ZMTP 3.0, NULL mechanism, over TCP on loopback.
//!
//! The peer is the job's and may send anything. A frame is taken into memory only as its bytes arrive, within a bound
//! for its message and one for all connections together. Of a longer frame the head is kept, and the rest is skipped.
//! Receiving can be cancelled and loses nothing.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::limits::kernels::{
    COMMAND_BYTES, FRAME_SEND_DEADLINE, HANDSHAKE_DEADLINE, LARGE_FRAME_BYTES, MESSAGE_BYTES, MESSAGE_FRAMES,
    MESSAGES_BYTES, OVERSIZE_HEAD_BYTES, SKIPPED_BYTES,
};

const GREETING_BYTES: usize = 64;
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// Most bytes of one read: frames grow with the bytes that have arrived, never with an announced length.
const READ_BYTES: usize = 64 * 1024;

/// The connection is of no further use.
#[derive(Debug, thiserror::Error)]
pub(super) enum ZmtpError {
    /// Reading from or writing to the socket failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The other side closed it.
    #[error("the connection was closed")]
    Closed,
    /// The other side does not speak the protocol.
    #[error("the peer broke the protocol: {0}")]
    Malformed(&'static str),
    /// The other side does not answer or does not read.
    #[error("the peer does not answer")]
    Stalled,
}

/// The role of a socket towards its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketRole<'a> {
    /// Sends requests and gets the answers meant for this identity.
    Dealer {
        /// Name under which the peer keeps answers for this client, across reconnections.
        identity: &'a [u8],
    },
    /// Hears everything that is published.
    Subscriber,
}

/// Memory that large frames of all connections share.
#[derive(Debug, Clone, Default)]
pub(in crate::keeper::kernels) struct MemoryBudget(Arc<AtomicUsize>);

/// A part of the budget; given back when dropped.
#[derive(Debug)]
struct BudgetShare {
    budget: MemoryBudget,
    bytes: usize,
}

impl MemoryBudget {
    fn take(&self, bytes: usize) -> Option<BudgetShare> {
        // Added first and checked after: two connections at once can't both take the last bytes. A refused share gives back when dropped.
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let share = BudgetShare { budget: self.clone(), bytes };
        (before + bytes <= MESSAGES_BYTES).then_some(share)
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A message of one or more frames.
#[derive(Debug, Default)]
pub(super) struct Multipart {
    pub(super) frames: Vec<Bytes>,
    /// Bytes that were skipped because a bound was reached. Their frame is cut, or missing.
    pub(super) left_out: u64,
    shares: Vec<BudgetShare>,
    bytes: usize,
}

#[cfg(test)]
impl Multipart {
    /// A message as if it had been received.
    pub(super) fn received(frames: Vec<Vec<u8>>, left_out: u64) -> Self {
        let frames = frames.into_iter().map(Bytes::from).collect();
        Self { frames, left_out, ..Self::default() }
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
    message: Multipart,
    frame: Option<ZmtpFrame>,
    budget: MemoryBudget,
}

/// The frame whose body is being received.
#[derive(Debug, Clone, Copy)]
struct ZmtpFrame {
    flags: u8,
    /// Bytes of the body that are kept.
    kept: usize,
    /// Bytes after those that are skipped.
    skipped: u64,
    kept_taken: bool,
}

impl Connection {
    /// Connects and completes the handshake.
    pub(super) async fn open(
        port: u16,
        role: SocketRole<'_>,
        budget: MemoryBudget,
    ) -> Result<Self, ZmtpError> {
        let opening = async {
            let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
            stream.set_nodelay(true)?;
            let mut connection =
                Self { stream, buffer: BytesMut::new(), message: Multipart::default(), frame: None, budget };
            connection.shake_hands(role).await?;
            Ok(connection)
        };
        tokio::time::timeout(HANDSHAKE_DEADLINE, opening).await.map_err(|_| ZmtpError::Stalled)?
    }

    async fn shake_hands(&mut self, role: SocketRole<'_>) -> Result<(), ZmtpError> {
        self.stream.write_all(&greeting()).await?;
        while self.buffer.len() < GREETING_BYTES {
            self.fill().await?;
        }
        check_greeting(&self.buffer.split_to(GREETING_BYTES))?;
        self.stream.write_all(&ready(role)).await?;
        self.receive_ready().await?;
        if role == SocketRole::Subscriber {
            // A subscription to everything: 1, then an empty prefix.
            self.send(&[b"\x01"]).await?;
        }
        Ok(())
    }

    async fn receive_ready(&mut self) -> Result<(), ZmtpError> {
        loop {
            match self.take_command()? {
                Some(body) if body.starts_with(b"\x05READY") => return Ok(()),
                Some(_) => return Err(ZmtpError::Malformed("no READY")),
                None => self.fill().await?,
            }
        }
    }

    /// A whole command at the head of the buffer, in the handshake.
    fn take_command(&mut self) -> Result<Option<Bytes>, ZmtpError> {
        let Some(&flags) = self.buffer.first() else { return Ok(None) };
        if flags & COMMAND == 0 {
            return Err(ZmtpError::Malformed("a message in the handshake"));
        }
        let Some((header, length)) = self.frame_length(flags) else { return Ok(None) };
        // Bounded before the wait for its bytes: commands of a handshake are short.
        if length > COMMAND_BYTES {
            return Err(ZmtpError::Malformed("a long command"));
        }
        let whole = header + usize::try_from(length).unwrap_or(usize::MAX);
        if self.buffer.len() < whole {
            return Ok(None);
        }
        self.buffer.advance(header);
        Ok(Some(self.buffer.split_to(whole - header).freeze()))
    }

    /// Bytes of the header at the head of the buffer, and the length it announces.
    fn frame_length(&self, flags: u8) -> Option<(usize, u64)> {
        if flags & LONG == 0 {
            return self.buffer.get(1).map(|length| (2, u64::from(*length)));
        }
        let bytes = self.buffer.get(1..9)?;
        Some((9, bytes.iter().fold(0, |length, byte| length << 8 | u64::from(*byte))))
    }

    pub(super) async fn send<B: AsRef<[u8]>>(&mut self, frames: &[B]) -> Result<(), ZmtpError> {
        let mut bytes = BytesMut::new();
        for (index, frame) in frames.iter().enumerate() {
            let more = if index + 1 < frames.len() { MORE } else { 0 };
            put_frame(&mut bytes, more, frame.as_ref());
        }
        self.write(&bytes).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ZmtpError> {
        let writing = self.stream.write_all(bytes);
        tokio::time::timeout(FRAME_SEND_DEADLINE, writing).await.map_err(|_| ZmtpError::Stalled)??;
        Ok(())
    }

    /// The next message. May be cancelled.
    pub(super) async fn receive(&mut self) -> Result<Multipart, ZmtpError> {
        loop {
            if let Some(message) = self.advance().await? {
                return Ok(message);
            }
            self.fill().await?;
        }
    }

    /// Takes the bytes of the buffer. Returns a message once it is whole.
    async fn advance(&mut self) -> Result<Option<Multipart>, ZmtpError> {
        loop {
            let Some(mut frame) = self.frame else {
                if !self.begin_frame()? {
                    return Ok(None);
                }
                continue;
            };
            if !frame.kept_taken {
                if self.buffer.len() < frame.kept {
                    return Ok(None);
                }
                let body = self.buffer.split_to(frame.kept).freeze();
                if frame.flags & COMMAND != 0 {
                    self.frame = None;
                    self.answer(&body).await?;
                    continue;
                }
                if frame.kept > 0 || frame.skipped == 0 {
                    // A copy, so that a small frame doesn't hold the large buffer it came in.
                    let small = frame.kept <= LARGE_FRAME_BYTES;
                    self.message.frames.push(if small { Bytes::copy_from_slice(&body) } else { body });
                }
                frame.kept_taken = true;
            }
            let skipped = frame.skipped.min(self.buffer.len() as u64);
            self.buffer.advance(usize::try_from(skipped).unwrap_or(0));
            frame.skipped -= skipped;
            self.frame = Some(frame);
            if frame.skipped > 0 {
                return Ok(None);
            }
            self.frame = None;
            if frame.flags & MORE == 0 {
                return Ok(Some(std::mem::take(&mut self.message)));
            }
        }
    }

    /// Parses the next frame's header. Returns false if it is not whole yet.
    fn begin_frame(&mut self) -> Result<bool, ZmtpError> {
        let Some(&flags) = self.buffer.first() else { return Ok(false) };
        let Some((header, length)) = self.frame_length(flags) else { return Ok(false) };
        // The length is the peer's claim. Skipping costs no memory, but an endless frame would hold the channel for ever.
        if length > SKIPPED_BYTES || flags & COMMAND != 0 && length > COMMAND_BYTES {
            return Err(ZmtpError::Malformed("a frame of absurd length"));
        }
        self.buffer.advance(header);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let kept = if flags & COMMAND != 0 { length } else { self.room_for(length) };
        let skipped = (length - kept) as u64;
        self.message.left_out = self.message.left_out.saturating_add(skipped);
        self.frame = Some(ZmtpFrame { flags, kept, skipped, kept_taken: false });
        Ok(true)
    }

    /// Number of bytes of a frame that are kept.
    fn room_for(&mut self, length: usize) -> usize {
        if self.message.frames.len() >= MESSAGE_FRAMES {
            return 0;
        }
        let left = MESSAGE_BYTES.saturating_sub(self.message.bytes);
        let kept = if length > left { left.min(OVERSIZE_HEAD_BYTES) } else { length };
        if kept <= LARGE_FRAME_BYTES {
            self.message.bytes += kept;
            return kept;
        }
        match self.budget.take(kept) {
            Some(share) => {
                self.message.bytes += kept;
                self.message.shares.push(share);
                kept
            }
            None => 0,
        }
    }

    /// Answers a peer that checks the connection.
    async fn answer(&mut self, command: &[u8]) -> Result<(), ZmtpError> {
        if let Some(context) = command.strip_prefix(b"\x04PING").and_then(|rest| rest.get(2..)) {
            let mut body = b"\x04PONG".to_vec();
            // ZMTP allows 16 bytes of context; a longer one would let the peer choose the size of the answer.
            body.extend_from_slice(&context[..context.len().min(16)]);
            let mut bytes = BytesMut::new();
            put_frame(&mut bytes, COMMAND, &body);
            self.write(&bytes).await?;
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<(), ZmtpError> {
        if self.buffer.is_empty() && self.buffer.capacity() > LARGE_FRAME_BYTES {
            // Gives the memory of a large message back, which BytesMut would keep for the connection's life.
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(READ_BYTES.min(self.buffer.len().max(4096)));
        let count = self.stream.read_buf(&mut self.buffer).await?;
        // A peer that does not turn Nagle's algorithm off, as Deno, sends the rest of a message only when its beginning was
        // acknowledged, which the kernel would delay by 40 ms. The option must be set before each read, and may fail without harm.
        let _ = rustix::net::sockopt::set_tcp_quickack(&self.stream, true);
        if count == 0 { Err(ZmtpError::Closed) } else { Ok(()) }
    }
}

fn greeting() -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

fn check_greeting(greeting: &[u8]) -> Result<(), ZmtpError> {
    let signature = greeting[0] == 0xff && greeting[9] & 1 == 1;
    if !signature || greeting[10] < 3 {
        return Err(ZmtpError::Malformed("not a ZMTP 3 greeting"));
    }
    if &greeting[12..17] != b"NULL\0" {
        return Err(ZmtpError::Malformed("another mechanism than NULL"));
    }
    Ok(())
}

fn ready(role: SocketRole<'_>) -> BytesMut {
    let mut body = BytesMut::new();
    body.put_slice(b"\x05READY");
    let mut property = |name: &[u8], value: &[u8]| {
        body.put_u8(u8::try_from(name.len()).unwrap_or(0));
        body.put_slice(name);
        body.put_u32(u32::try_from(value.len()).unwrap_or(0));
        body.put_slice(value);
    };
    match role {
        SocketRole::Dealer { identity } => {
            property(b"Socket-Type", b"DEALER");
            property(b"Identity", identity);
        }
        SocketRole::Subscriber => property(b"Socket-Type", b"SUB"),
    }
    let mut frame = BytesMut::new();
    put_frame(&mut frame, COMMAND, &body);
    frame
}

fn put_frame(bytes: &mut BytesMut, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => {
            bytes.put_u8(flags);
            bytes.put_u8(length);
        }
        Err(_) => {
            bytes.put_u8(flags | LONG);
            bytes.put_u64(body.len() as u64);
        }
    }
    bytes.put_slice(body);
}

#[cfg(test)]
#[path = "zmtp_tests.rs"]
mod tests;
