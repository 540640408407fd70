//! Messages and data on one stream. A frame is kind (1 byte), length (4 bytes, big endian) and payload; the length is checked before
//! memory is allocated.
//!
//! Receiving can be cancelled without losing bytes. A cancelled send may leave half a frame in the stream, which must then be dropped.

use bytes::{Buf, Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

const HEADER_BYTES: usize = 5;
const MESSAGE: u8 = 1;
const DATA: u8 = 2;

/// One frame of a stream, without its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A JSON document of at most `message_bytes`. Not parsed yet.
    Message(Bytes),
    /// Bytes without structure, at most `data_bytes`.
    Data(Bytes),
}

/// Maximum length of frames, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// The longest message that is accepted.
    pub message_bytes: usize,
    /// The longest message that is sent: the other side's limit.
    pub sent_message_bytes: usize,
    /// The longest data frame.
    pub data_bytes: usize,
}

/// Why a frame could not be sent or received. The stream must not be used any more.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Reading from or writing to the stream failed.
    #[error("the stream failed")]
    Io(#[from] std::io::Error),
    /// The stream ended inside a frame, or where a message had to come.
    #[error("the stream ended early")]
    Ended,
    /// The frame is longer than its limit.
    #[error("a frame of {0} bytes is over its limit")]
    TooLong(usize),
    /// The bytes are no frame, not of the expected kind, or not the expected JSON.
    #[error("malformed frame: {0}")]
    Malformed(String),
}

/// Both directions of a stream.
#[derive(Debug)]
pub struct Framed<S> {
    receiver: FrameReceiver<S>,
    sender: FrameSender<S>,
}

/// The receiving half of a stream, with the bytes that were read ahead.
#[derive(Debug)]
pub struct FrameReceiver<S> {
    stream: ReadHalf<S>,
    buffer: BytesMut,
    limits: FrameLimits,
}

/// The sending half of a stream. Each call sends one whole frame and flushes it.
#[derive(Debug)]
pub struct FrameSender<S> {
    stream: WriteHalf<S>,
    limits: FrameLimits,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Framed<S> {
    /// Cuts a stream into frames.
    pub fn new(stream: S, limits: FrameLimits) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self {
            receiver: FrameReceiver { stream: reader, buffer: BytesMut::new(), limits },
            sender: FrameSender { stream: writer, limits },
        }
    }

    /// Sends a value as JSON in one message frame. Must not be cancelled.
    pub async fn send_message<T: Serialize>(&mut self, message: &T) -> Result<(), FrameError> {
        self.sender.send_message(message).await
    }

    /// Sends bytes in one data frame, at most `data_bytes`. Must not be cancelled.
    pub async fn send_data(&mut self, data: &[u8]) -> Result<(), FrameError> {
        self.sender.send_data(data).await
    }

    /// Receives the next frame; `None` at a clean end.
    pub async fn receive(&mut self) -> Result<Option<Frame>, FrameError> {
        self.receiver.receive().await
    }

    /// Receives the next frame, which must be a message of this type.
    pub async fn receive_message<T: DeserializeOwned>(&mut self) -> Result<T, FrameError> {
        self.receiver.receive_message().await
    }

    /// Closes the sending direction.
    pub async fn finish(&mut self) -> Result<(), FrameError> {
        self.sender.finish().await
    }

    /// Splits the stream for use in two tasks.
    pub fn split(self) -> (FrameReceiver<S>, FrameSender<S>) {
        (self.receiver, self.sender)
    }

    /// Returns the stream and the bytes that were read ahead. For requests after which the stream carries plain bytes.
    pub fn into_inner(self) -> (S, Bytes) {
        (self.receiver.stream.unsplit(self.sender.stream), self.receiver.buffer.freeze())
    }
}

impl<S: AsyncRead + Unpin> FrameReceiver<S> {
    /// Receives the next frame; `None` at a clean end. Cancelling loses nothing: bytes that were read stay in the buffer.
    pub async fn receive(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(frame) = self.take_frame()? {
                return Ok(Some(frame));
            }
            self.buffer.reserve(self.missing());
            // `read_buf` puts bytes into the buffer or, when cancelled, takes none from the stream.
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(FrameError::Ended) };
            }
        }
    }

    /// Receives the next frame, which must be a message of this type.
    pub async fn receive_message<T: DeserializeOwned>(&mut self) -> Result<T, FrameError> {
        match self.receive().await? {
            Some(Frame::Message(message)) => parse(&message),
            Some(Frame::Data(_)) => Err(FrameError::Malformed("data where a message belongs".into())),
            None => Err(FrameError::Ended),
        }
    }

    /// Bytes that are missing for the frame at the head of the buffer. `take_frame` has checked the length before.
    fn missing(&self) -> usize {
        let whole = match self.buffer.get(1..HEADER_BYTES) {
            Some(length) => HEADER_BYTES + u32_of(length),
            None => 4096,
        };
        whole.saturating_sub(self.buffer.len()).max(1)
    }

    fn take_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(header) = self.buffer.get(..HEADER_BYTES) else { return Ok(None) };
        let (kind, length) = (header[0], u32_of(&header[1..]));
        let limit = match kind {
            MESSAGE => self.limits.message_bytes,
            DATA => self.limits.data_bytes,
            _ => return Err(FrameError::Malformed(format!("kind {kind}"))),
        };
        // The peer may be hostile: its length is checked before `missing` reserves memory for it.
        if length > limit {
            return Err(FrameError::TooLong(length));
        }
        if self.buffer.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(HEADER_BYTES);
        let payload = self.buffer.split_to(length).freeze();
        Ok(Some(if kind == MESSAGE { Frame::Message(payload) } else { Frame::Data(payload) }))
    }
}

impl<S: AsyncWrite + Unpin> FrameSender<S> {
    /// Sends a value as JSON in one message frame. Must not be cancelled: half a frame would stay in the stream.
    pub async fn send_message<T: Serialize>(&mut self, message: &T) -> Result<(), FrameError> {
        let mut frame = vec![0; HEADER_BYTES];
        serde_json::to_writer(&mut frame, message)
            .map_err(|error| FrameError::Malformed(error.to_string()))?;
        self.send(MESSAGE, frame, self.limits.sent_message_bytes).await
    }

    /// Sends bytes in one data frame, at most `data_bytes`. Must not be cancelled: half a frame would stay in the stream.
    pub async fn send_data(&mut self, data: &[u8]) -> Result<(), FrameError> {
        let mut frame = Vec::with_capacity(HEADER_BYTES + data.len());
        frame.resize(HEADER_BYTES, 0);
        frame.extend_from_slice(data);
        self.send(DATA, frame, self.limits.data_bytes).await
    }

    /// Sends a received frame unchanged, for a relay.
    pub async fn send_frame(&mut self, frame: &Frame) -> Result<(), FrameError> {
        let (kind, payload, limit) = match frame {
            Frame::Message(payload) => (MESSAGE, payload, self.limits.sent_message_bytes),
            Frame::Data(payload) => (DATA, payload, self.limits.data_bytes),
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend_from_slice(payload);
        self.send(kind, bytes, limit).await
    }

    /// Closes the sending direction.
    pub async fn finish(&mut self) -> Result<(), FrameError> {
        Ok(self.stream.shutdown().await?)
    }

    async fn send(&mut self, kind: u8, mut frame: Vec<u8>, limit: usize) -> Result<(), FrameError> {
        let length = frame.len() - HEADER_BYTES;
        let Some(header) = u32::try_from(length).ok().filter(|_| length <= limit) else {
            return Err(FrameError::TooLong(length));
        };
        frame[0] = kind;
        frame[1..HEADER_BYTES].copy_from_slice(&header.to_be_bytes());
        self.stream.write_all(&frame).await?;
        Ok(self.stream.flush().await?)
    }
}

/// Parses a JSON message.
fn parse<T: DeserializeOwned>(message: &[u8]) -> Result<T, FrameError> {
    serde_json::from_slice(message).map_err(|error| FrameError::Malformed(error.to_string()))
}

fn u32_of(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
