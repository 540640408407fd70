//! The event stream of one link: events and the job's output, from the point where the host's store ends. The host acknowledges
//! the events and the output that it has committed.

use std::sync::Arc;

use sandyard_pipe::{FrameError, FrameReceiver, FrameSender, Framed, Link, PipeStream};
use sandyard_protocol::limits::DATA_BYTES;
use sandyard_protocol::{Ack, GuestRequest, OutputChunk, OutputOffsets, OutputStream, Resume};
use tokio::sync::watch;

use super::core::KeeperCore;
use super::events::EventLog;
use super::job::state::MachineJob;
use super::output::capture::{Follower, Piece};
use super::stream::FRAME_LIMITS;
use crate::limits::OUTPUT_IN_FLIGHT;

/// Events and the job's output.
pub(super) struct EventSource {
    pub(super) core: Arc<KeeperCore>,
    pub(super) events: Arc<EventLog>,
    pub(super) job: Arc<MachineJob>,
}

impl EventSource {
    /// Serves the stream until it or the link fails.
    pub(super) async fn serve(&self, link: Link) -> Result<(), FrameError> {
        let Ok(stream) = link.open().await else { return Ok(()) };
        let mut stream = Framed::new(stream, FRAME_LIMITS);
        stream.send_message(&GuestRequest::Events).await?;
        let resume: Resume = stream.receive_message().await?;
        let first = Ack { sequence: resume.next_sequence.saturating_sub(1), output: resume.output };
        // The host's store is the truth. The last acknowledgements of an earlier link may have been lost.
        self.acknowledge(&first);
        let (acknowledged, acknowledgements) = watch::channel(resume.output);
        let (receiver, sender) = stream.split();
        let mut sending = EventSender::new(self, sender, &resume, acknowledgements);
        // Acknowledgements must be read while output is sent: they free the spool and reopen the window of unacknowledged output. The
        // first failure ends both. Cancelling loses nothing: unacknowledged events and output stay on disk for the next link.
        tokio::select! {
            outcome = self.receive(receiver, acknowledged) => outcome,
            outcome = sending.run() => outcome,
        }
    }

    /// Receives acknowledgements until the stream fails. Each frees events and output on disk.
    async fn receive(
        &self,
        mut receiver: FrameReceiver<PipeStream>,
        acknowledged: watch::Sender<OutputOffsets>,
    ) -> Result<(), FrameError> {
        loop {
            let ack: Ack = receiver.receive_message().await?;
            self.acknowledge(&ack);
            acknowledged.send_replace(ack.output);
        }
    }

    /// Drops events and output that the host has committed.
    fn acknowledge(&self, ack: &Ack) {
        self.core.stop_on(self.events.acknowledge(ack.sequence));
        self.job.output(OutputStream::Stdout).acknowledge(ack.output.stdout);
        self.job.output(OutputStream::Stderr).acknowledge(ack.output.stderr);
    }
}

/// Sends events and output, in order.
struct EventSender<'a> {
    source: &'a EventSource,
    sender: FrameSender<PipeStream>,
    next_sequence: u64,
    stdout: Follower,
    stderr: Follower,
    acknowledged: watch::Receiver<OutputOffsets>,
    events: watch::Receiver<()>,
    frame: Vec<u8>,
}

impl<'a> EventSender<'a> {
    fn new(
        source: &'a EventSource,
        sender: FrameSender<PipeStream>,
        resume: &Resume,
        acknowledged: watch::Receiver<OutputOffsets>,
    ) -> Self {
        Self {
            sender,
            next_sequence: resume.next_sequence,
            stdout: Follower::new(source.job.output(OutputStream::Stdout).clone(), resume.output.stdout),
            stderr: Follower::new(source.job.output(OutputStream::Stderr).clone(), resume.output.stderr),
            acknowledged,
            events: source.events.changes(),
            frame: vec![0; DATA_BYTES],
            source,
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

    /// Waits for a change of anything that this stream sends. Each was marked as seen when it was last read, so no change is missed.
    async fn wait(&mut self) {
        // All four are watches, so a cancelled branch loses nothing. The caller looks at all sources in turn; none can starve.
        tokio::select! {
            _ = self.events.changed() => {}
            _ = self.acknowledged.changed() => {}
            () = self.stdout.changed() => {}
            () = self.stderr.changed() => {}
        }
    }

    /// Sends each event whose preceding output has been sent.
    async fn send_events(&mut self) -> Result<bool, FrameError> {
        let mut progressed = false;
        while let Some(pending) = self.source.events.next(self.next_sequence) {
            // The protocol promises that the end of the job comes after all its output.
            if self.stdout.offset() < pending.after.stdout || self.stderr.offset() < pending.after.stderr {
                break;
            }
            self.sender.send_message(&pending.event).await?;
            self.next_sequence = pending.event.sequence + 1;
            progressed = true;
        }
        Ok(progressed)
    }

    /// Sends one piece of output, unless too much is unacknowledged.
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
            // Only acknowledged output is dropped, so the host asked for output that it had acknowledged earlier.
            Piece::Lost(_) => Ok(true),
            Piece::Nothing | Piece::End => Ok(false),
        }
    }
}
