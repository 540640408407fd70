//! The event stream of one link: events and the job's output, from where the host's store ends, acknowledged as it commits.

use std::sync::Arc;

use sandyard_pipe::{FrameError, FrameReceiver, FrameSender, Framed, Link, PipeStream};
use sandyard_protocol::limits::DATA_BYTES;
use sandyard_protocol::{Ack, GuestRequest, OutputChunk, OutputOffsets, OutputStream, Resume};
use tokio::sync::watch;

use super::Keeper;
use super::capture::{Follower, Piece};
use super::link::FRAME_LIMITS;
use crate::limits::OUTPUT_IN_FLIGHT;

/// Serves the stream until it or the link fails.
pub(super) async fn serve(keeper: Arc<Keeper>, link: Link) -> Result<(), FrameError> {
    let Ok(stream) = link.open().await else { return Ok(()) };
    let mut stream = Framed::new(stream, FRAME_LIMITS);
    stream.send_message(&GuestRequest::Events).await?;
    let resume: Resume = stream.receive_message().await?;
    let first = Ack { sequence: resume.next_sequence.saturating_sub(1), output: resume.output };
    keeper.acknowledge(&first);
    let (acknowledged, acknowledgements) = watch::channel(resume.output);
    let (receiver, sender) = stream.split();
    let mut sending = Sending::new(&keeper, sender, &resume, acknowledgements);
    tokio::select! {
        outcome = receive(&keeper, receiver, acknowledged) => outcome,
        outcome = sending.run() => outcome,
    }
}

/// Takes acknowledgements.
async fn receive(
    keeper: &Keeper,
    mut receiver: FrameReceiver<PipeStream>,
    acknowledged: watch::Sender<OutputOffsets>,
) -> Result<(), FrameError> {
    loop {
        let ack: Ack = receiver.receive_message().await?;
        keeper.acknowledge(&ack);
        acknowledged.send_replace(ack.output);
    }
}

struct Sending<'a> {
    keeper: &'a Keeper,
    sender: FrameSender<PipeStream>,
    next_sequence: u64,
    stdout: Follower,
    stderr: Follower,
    acknowledged: watch::Receiver<OutputOffsets>,
    events: watch::Receiver<()>,
    frame: Vec<u8>,
}

impl<'a> Sending<'a> {
    fn new(
        keeper: &'a Keeper,
        sender: FrameSender<PipeStream>,
        resume: &Resume,
        acknowledged: watch::Receiver<OutputOffsets>,
    ) -> Self {
        Self {
            sender,
            next_sequence: resume.next_sequence,
            stdout: Follower::new(keeper.job.output(OutputStream::Stdout), resume.output.stdout),
            stderr: Follower::new(keeper.job.output(OutputStream::Stderr), resume.output.stderr),
            acknowledged,
            events: keeper.events.changes(),
            frame: vec![0; DATA_BYTES],
            keeper,
        }
    }

    async fn run(&mut self) -> Result<(), FrameError> {
        loop {
            self.events.borrow_and_update();
            let mut progressed = self.send_events().await?;
            for stream in [OutputStream::Stdout, OutputStream::Stderr] {
                progressed |= self.send_output(stream).await?;
            }
            if !progressed {
                self.wait().await;
            }
        }
    }

    /// Everything this stream depends on was looked at since it last changed, so no change is missed.
    async fn wait(&mut self) {
        tokio::select! {
            _ = self.events.changed() => {}
            _ = self.acknowledged.changed() => {}
            () = self.stdout.changed() => {}
            () = self.stderr.changed() => {}
        }
    }

    /// Sends the events whose output has been sent.
    async fn send_events(&mut self) -> Result<bool, FrameError> {
        let mut progressed = false;
        while let Some(pending) = self.keeper.events.next(self.next_sequence) {
            if self.stdout.offset() < pending.after.stdout || self.stderr.offset() < pending.after.stderr {
                break;
            }
            self.sender.send_message(&pending.event).await?;
            self.next_sequence = pending.event.sequence + 1;
            progressed = true;
        }
        Ok(progressed)
    }

    /// Sends one piece of output, unless too much is on its way.
    async fn send_output(&mut self, stream: OutputStream) -> Result<bool, FrameError> {
        let acknowledged = self.acknowledged.borrow_and_update().get(stream);
        let follower = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        if follower.offset().saturating_sub(acknowledged) >= OUTPUT_IN_FLIGHT {
            return Ok(false);
        }
        match follower.read(&mut self.frame[OutputChunk::HEADER_BYTES..])? {
            Piece::Bytes { offset, count } => {
                let header = OutputChunk::header(stream, offset);
                self.frame[..OutputChunk::HEADER_BYTES].copy_from_slice(&header);
                self.sender.send_data(&self.frame[..OutputChunk::HEADER_BYTES + count]).await?;
                Ok(true)
            }
            // Only acknowledged output is dropped, so this is a host that forgot what it had.
            Piece::Lost(_) => Ok(true),
            Piece::Nothing | Piece::End => Ok(false),
        }
    }
}
