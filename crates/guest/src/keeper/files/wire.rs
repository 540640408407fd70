//! The frames of `sandyard_pipe`, read and written without an async runtime: a file worker does one thing at a time.
//!
//! An empty data frame ends an operation. Keeper sends one after the host's last frame, the worker one after its
//! own last, so both know where the next operation begins.

use std::io::{self, Read, Write};

use bytes::Bytes;
use sandyard_pipe::Frame;
use sandyard_protocol::limits::{DATA_BYTES, REQUEST_BYTES};
use serde::Serialize;

use super::error::FileError;

const HEADER_BYTES: usize = 5;
const MESSAGE: u8 = 1;
const DATA: u8 = 2;

/// Both directions between a file worker and keeper.
pub(in crate::keeper) struct WorkerWire<'a> {
    input: &'a mut dyn Read,
    output: &'a mut dyn Write,
    /// A data frame under construction: header, then payload.
    frame: Vec<u8>,
    input_ended: bool,
}

impl<'a> WorkerWire<'a> {
    pub(in crate::keeper) fn new(input: &'a mut dyn Read, output: &'a mut dyn Write) -> Self {
        Self { input, output, frame: vec![0; HEADER_BYTES + DATA_BYTES], input_ended: true }
    }

    /// The next frame; `None` at a clean end.
    pub(in crate::keeper) fn receive(&mut self) -> Result<Option<Frame>, FileError> {
        let mut header = [0; HEADER_BYTES];
        match self.input.read(&mut header[..1]).map_err(FileError::Pipe)? {
            0 => return Ok(None),
            _ => self.input.read_exact(&mut header[1..]).map_err(FileError::Pipe)?,
        }
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let limit = if header[0] == MESSAGE { REQUEST_BYTES } else { DATA_BYTES };
        if !matches!(header[0], MESSAGE | DATA) || length > limit {
            return Err(FileError::Pipe(io::Error::from(io::ErrorKind::InvalidData)));
        }
        // The length was checked above: memory is never allocated by the word of the other side.
        let mut payload = vec![0; length];
        self.input.read_exact(&mut payload).map_err(FileError::Pipe)?;
        let payload = Bytes::from(payload);
        self.input_ended = header[0] == DATA && payload.is_empty();
        Ok(Some(if header[0] == MESSAGE { Frame::Message(payload) } else { Frame::Data(payload) }))
    }

    /// True if the last received frame closed its operation.
    pub(in crate::keeper) fn input_ended(&self) -> bool {
        self.input_ended
    }

    pub(in crate::keeper) fn send_message<T: Serialize>(&mut self, message: &T) -> Result<(), FileError> {
        let mut frame = vec![0; HEADER_BYTES];
        serde_json::to_writer(&mut frame, message).map_err(|error| FileError::Pipe(error.into()))?;
        set_header(&mut frame, MESSAGE)?;
        self.output.write_all(&frame).map_err(FileError::Pipe)
    }

    /// Room for the payload of the next data frame.
    pub(in crate::keeper) fn payload(&mut self) -> &mut [u8] {
        &mut self.frame[HEADER_BYTES..]
    }

    /// Sends the first `length` bytes of `payload`.
    pub(in crate::keeper) fn send_payload(&mut self, length: usize) -> Result<(), FileError> {
        let frame = &mut self.frame[..HEADER_BYTES + length.min(DATA_BYTES)];
        set_header(frame, DATA)?;
        self.output.write_all(frame).map_err(FileError::Pipe)
    }

    /// Ends this side of the operation.
    pub(in crate::keeper) fn send_end(&mut self) -> Result<(), FileError> {
        self.send_payload(0)
    }
}

fn set_header(frame: &mut [u8], kind: u8) -> Result<(), FileError> {
    let length = u32::try_from(frame.len() - HEADER_BYTES)
        .map_err(|error| FileError::Pipe(io::Error::other(error)))?;
    frame[0] = kind;
    frame[1..HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_survive_the_wire() {
        let mut sent = Vec::new();
        let mut nothing = io::empty();
        let mut wire = WorkerWire::new(&mut nothing, &mut sent);
        wire.send_message(&"hello").unwrap();
        wire.payload()[..3].copy_from_slice(b"abc");
        wire.send_payload(3).unwrap();
        wire.send_end().unwrap();
        let (mut input, mut sink) = (sent.as_slice(), io::sink());
        let mut wire = WorkerWire::new(&mut input, &mut sink);
        assert_eq!(wire.receive().unwrap(), Some(Frame::Message(Bytes::from_static(b"\"hello\""))));
        assert_eq!(wire.receive().unwrap(), Some(Frame::Data(Bytes::from_static(b"abc"))));
        assert_eq!(wire.receive().unwrap(), Some(Frame::Data(Bytes::new())));
        assert_eq!(wire.receive().unwrap(), None);
    }

    #[test]
    fn a_length_of_a_billion_is_refused_before_memory_is_taken() {
        for kind in [MESSAGE, DATA] {
            let mut bytes = vec![kind];
            bytes.extend_from_slice(&1_000_000_000_u32.to_be_bytes());
            let (mut input, mut sink) = (bytes.as_slice(), io::sink());
            assert!(WorkerWire::new(&mut input, &mut sink).receive().is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let (mut input, mut sink) = (bytes.as_slice(), io::sink());
            let mut wire = WorkerWire::new(&mut input, &mut sink);
            while let Ok(Some(_)) = wire.receive() {}
        }
    }
}
