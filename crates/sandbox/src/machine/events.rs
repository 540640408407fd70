//! The event stream, as the host sees it.

use std::time::Duration;

use bytes::Bytes;
use sandyard_pipe::{Frame, Framed, PipeStream};
use sandyard_protocol::{Ack, GuestRequest, OutputChunk, Resume, SequencedEvent};

use super::calls::{FRAME_LIMITS, GuestStream, Machine, MachineError};
use super::doors::MachineStream;

/// Longest wait for the purpose of a stream, which a guest names at once after opening it.
const ASK_DEADLINE: Duration = Duration::from_secs(5);

impl Machine {
    /// Waits for the guest to open its event stream, which it does first on every link. Streams that it opens
    /// before are reset.
    pub async fn event_stream(&self) -> Result<GuestEventStream, MachineError> {
        loop {
            if let OpenedByGuest::Events(events) = self.next_asked().await? {
                return Ok(events);
            }
        }
    }

    /// Returns the next stream that the guest opens, with its purpose.
    pub async fn next_asked(&self) -> Result<OpenedByGuest, MachineError> {
        let stream = self.link.accept().await.ok_or(MachineError::Lost)?;
        let mut stream = Framed::new(MachineStream::open(stream), FRAME_LIMITS);
        let named = tokio::time::timeout(ASK_DEADLINE, stream.receive_message());
        match named.await.map_err(|_| MachineError::Deadline)?? {
            GuestRequest::Events => Ok(OpenedByGuest::Events(GuestEventStream { stream })),
            GuestRequest::Egress => {
                let (stream, early) = into_bytes(stream);
                Ok(OpenedByGuest::Egress { stream, early })
            }
            GuestRequest::Model => {
                let (stream, early) = into_bytes(stream);
                Ok(OpenedByGuest::Model { stream, early })
            }
            GuestRequest::Desk => {
                let (stream, early) = into_bytes(stream);
                Ok(OpenedByGuest::Desk { stream, early })
            }
        }
    }
}

/// Returns a stream of the guest's without its frames, and the bytes that were read already.
fn into_bytes(stream: GuestStream) -> (PipeStream, Bytes) {
    let (stream, early) = stream.into_inner();
    (stream.into_pipe(), early)
}

/// A stream that the guest opened.
#[derive(Debug)]
pub enum OpenedByGuest {
    /// Stream of the job's events and output.
    Events(GuestEventStream),
    /// A program's connection to the proxy.
    Egress {
        /// Stream with the bytes that follow.
        stream: PipeStream,
        /// Bytes that were read already.
        early: Bytes,
    },
    /// A call of a model. Its frames have bounds of their own.
    Model {
        /// Stream with the bytes that follow.
        stream: PipeStream,
        /// Bytes that were read already.
        early: Bytes,
    },
    /// The desk of a task. Its frames have bounds of their own.
    Desk {
        /// Stream with the bytes that follow.
        stream: PipeStream,
        /// Bytes that were read already.
        early: Bytes,
    },
}

/// Events and the job's output, in order. Call `resume` first.
#[derive(Debug)]
pub struct GuestEventStream {
    stream: GuestStream,
}

/// Item of the event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromGuest {
    /// An event of the job with its sequence number.
    Event(SequencedEvent),
    /// Output of the job.
    Output(OutputChunk),
}

impl GuestEventStream {
    /// Reports the committed position to the guest before the first event.
    pub async fn resume(&mut self, resume: &Resume) -> Result<(), MachineError> {
        Ok(self.stream.send_message(resume).await?)
    }

    /// Returns the next event or output. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Result<FromGuest, MachineError> {
        match self.stream.receive().await? {
            Some(Frame::Data(frame)) => OutputChunk::decode(frame)
                .map(FromGuest::Output)
                .ok_or_else(|| MachineError::Malformed("output chunk".into())),
            Some(Frame::Message(message)) => serde_json::from_slice(&message)
                .map(FromGuest::Event)
                .map_err(|_| MachineError::Malformed("event".into())),
            None => Err(MachineError::Lost),
        }
    }

    /// Reports a new committed position to the guest.
    pub async fn acknowledge(&mut self, ack: &Ack) -> Result<(), MachineError> {
        Ok(self.stream.send_message(ack).await?)
    }
}
