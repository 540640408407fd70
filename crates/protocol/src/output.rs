//! Output bytes with their offset in the stream, so that the host recognises repeated bytes and gaps are impossible.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

/// An output of the job's process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LogStream))]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output. The output of a process with a terminal is all here.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

/// A position in both outputs of a process, in bytes since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputOffsets {
    /// Bytes of standard output.
    pub stdout: u64,
    /// Bytes of standard error.
    pub stderr: u64,
}

impl OutputOffsets {
    /// Returns the position in one stream.
    pub fn get(&self, stream: OutputStream) -> u64 {
        match stream {
            OutputStream::Stdout => self.stdout,
            OutputStream::Stderr => self.stderr,
        }
    }

    /// Sets the position in one stream.
    pub fn set(&mut self, stream: OutputStream, offset: u64) {
        match stream {
            OutputStream::Stdout => self.stdout = offset,
            OutputStream::Stderr => self.stderr = offset,
        }
    }
}

/// Consecutive output bytes in one data frame: stream (1 byte: 1 stdout, 2 stderr), offset (8 bytes, big endian), bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// The stream that the bytes were written to.
    pub stream: OutputStream,
    /// Offset of the first byte in its stream.
    pub offset: u64,
    /// The bytes as the process wrote them, in any encoding.
    pub bytes: Bytes,
}

impl OutputChunk {
    /// Bytes of stream and offset before the output in a data frame.
    pub const HEADER_BYTES: usize = 9;

    /// The header of a data frame, for a sender that reads output straight into the frame.
    pub fn header(stream: OutputStream, offset: u64) -> [u8; Self::HEADER_BYTES] {
        let mut header = [0; Self::HEADER_BYTES];
        header[0] = match stream {
            OutputStream::Stdout => 1,
            OutputStream::Stderr => 2,
        };
        header[1..].copy_from_slice(&offset.to_be_bytes());
        header
    }

    /// Encodes this chunk as a data frame.
    pub fn encode(&self) -> Bytes {
        let mut frame = BytesMut::with_capacity(Self::HEADER_BYTES + self.bytes.len());
        frame.put_slice(&Self::header(self.stream, self.offset));
        frame.put_slice(&self.bytes);
        frame.freeze()
    }

    /// Decodes a data frame; `None` if it is malformed or its end overflows the offset.
    pub fn decode(mut frame: Bytes) -> Option<Self> {
        if frame.len() < Self::HEADER_BYTES {
            return None;
        }
        let stream = match frame.get_u8() {
            1 => OutputStream::Stdout,
            2 => OutputStream::Stderr,
            _ => return None,
        };
        let offset = frame.get_u64();
        offset.checked_add(frame.len() as u64)?;
        Some(Self { stream, offset, bytes: frame })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_decode_without_panic(frame in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = OutputChunk::decode(Bytes::from(frame));
        }

        #[test]
        fn a_chunk_survives_the_wire(offset in 0..u64::MAX / 2, bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let chunk = OutputChunk { stream: OutputStream::Stderr, offset, bytes: Bytes::from(bytes) };
            prop_assert_eq!(OutputChunk::decode(chunk.encode()), Some(chunk));
        }
    }

    #[test]
    fn an_offset_that_would_overflow_is_refused() {
        let chunk =
            OutputChunk { stream: OutputStream::Stdout, offset: u64::MAX, bytes: Bytes::from_static(b"x") };
        assert_eq!(OutputChunk::decode(chunk.encode()), None);
    }
}
