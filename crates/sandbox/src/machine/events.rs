//! The event stream, as the host sees it.

use sandyard_pipe::{Frame, Framed};
use sandyard_protocol::{Ack, GuestRequest, OutputChunk, Resume, SequencedEvent};

use super::{FRAME_LIMITS, GuestStream, Machine, MachineError};

impl Machine {
    /// Waits for the guest to open its event stream, which it does once on every link.
    pub async fn event_stream(&self) -> Result<EventStream, MachineError> {
        let stream = self.link.accept().await.ok_or(MachineError::Lost)?;
        let mut stream = Framed::new(stream, FRAME_LIMITS);
        let GuestRequest::Events = stream.receive_message().await?;
        Ok(EventStream { stream })
    }
}

/// Events and the job's output, in order; say where to resume first.
#[derive(Debug)]
pub struct EventStream {
    stream: GuestStream,
}

/// What the event stream brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromGuest {
    /// An event.
    Event(SequencedEvent),
    /// Output of the job.
    Output(OutputChunk),
}

impl EventStream {
    /// Tells the guest what is committed already.
    pub async fn resume(&mut self, resume: &Resume) -> Result<(), MachineError> {
        Ok(self.stream.send_message(resume).await?)
    }

    /// The next event or output. Loses nothing when cancelled.
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

    /// Tells the guest what has been committed since.
    pub async fn acknowledge(&mut self, ack: &Ack) -> Result<(), MachineError> {
        Ok(self.stream.send_message(ack).await?)
    }
}
