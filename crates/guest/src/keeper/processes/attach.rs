//! A stream on a process: output from an offset and the exit to the caller; input, terminal size and signals from the caller.

use std::sync::Arc;

use sandyard_pipe::{Frame, FrameError, FrameReceiver, FrameSender};
use sandyard_protocol::limits::DATA_BYTES;
use sandyard_protocol::{
    EndReason, OutputChunk, OutputOffsets, OutputStream, ProcessEvent, ProcessInfo, ProcessInput, Reply,
};

use super::process::{Ending, ManagedProcess};
use crate::keeper::clock::milliseconds;
use crate::keeper::output::capture::{Follower, Piece};
use crate::keeper::stream::{HostStream, ServedStream};
use crate::limits::TERMINATION_GRACE;
use crate::process_host::ProcessHost;

/// Ends a process when the stream that started it is lost.
#[derive(Debug)]
pub(super) struct EndGuard(Option<Arc<ManagedProcess>>);

impl EndGuard {
    pub(super) fn new(process: Arc<ManagedProcess>) -> Self {
        Self(Some(process))
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if let Some(process) = &self.0 {
            process.end(Ending::after(EndReason::Cancelled, milliseconds(TERMINATION_GRACE)));
        }
    }
}

/// What the loss of the stream that started a process ends.
#[derive(Debug, Default)]
pub(super) struct StreamTies {
    /// The process, whenever the stream is lost.
    pub(super) _life: Option<EndGuard>,
    /// The process, until the stream has closed standard input.
    pub(super) input: Option<EndGuard>,
}

/// How a stream came to a process.
#[derive(Debug, Default)]
pub(super) struct StreamOpening {
    pub(super) ties: StreamTies,
    /// True if the stream asked for a start, and an earlier one had started the process.
    pub(super) repeated: bool,
}

/// Serves one stream until the process has ended and all its output was sent, or the stream is lost.
pub(super) async fn serve(
    host: &dyn ProcessHost,
    process: &Arc<ManagedProcess>,
    from: OutputOffsets,
    mut stream: HostStream,
    opening: StreamOpening,
) {
    let _attached = process.attach();
    let info = ProcessInfo { repeated: opening.repeated, ..process.info() };
    // The ties end with this function, however it ends.
    let mut ties = opening.ties;
    if stream.send_message(&Reply::Process(info)).await.is_err() {
        return;
    }
    let (receiver, sender) = stream.split();
    let mut sending = OutputSender::new(process, from, sender);
    // Output to the caller and input from the caller, side by side: input must flow while output waits for the host. The first
    // branch to end cancels the other. A cancelled `receive` may drop input that was not written yet, and a cancelled `run` may cut
    // a frame, but the process or the stream is gone then. A failure ends this stream alone: others may be attached to the process.
    tokio::select! {
        outcome = sending.run() => drop(outcome),
        _lost = receive(host, process, receiver, &mut ties) => {}
    }
}

/// Takes input. Returns when the stream is lost or malformed. yamux shows a lost stream as an ended one, so a caller that
/// follows a process must keep its side open.
async fn receive(
    host: &dyn ProcessHost,
    process: &ManagedProcess,
    mut receiver: FrameReceiver<ServedStream>,
    ties: &mut StreamTies,
) -> FrameError {
    loop {
        match receiver.receive().await {
            Ok(Some(Frame::Data(bytes))) => process.input.write(&bytes).await,
            Ok(Some(Frame::Message(message))) => match serde_json::from_slice(&message) {
                Ok(ProcessInput::Close) => {
                    process.close_input(host).await;
                    if let Some(guard) = ties.input.take() {
                        guard.disarm();
                    }
                }
                Ok(ProcessInput::Resize(size)) => process.resize(size),
                // A signal that can't be sent changes nothing; the stream has no place for an answer.
                Ok(ProcessInput::Signal(signal)) => drop(process.signal(host, signal).await),
                Err(error) => return FrameError::Malformed(error.to_string()),
            },
            Ok(None) => return FrameError::Ended,
            Err(error) => return error,
        }
    }
}

/// Sends the output and the exit of a process.
struct OutputSender<'a> {
    process: &'a ManagedProcess,
    sender: FrameSender<ServedStream>,
    stdout: Follower,
    stderr: Follower,
    frame: Vec<u8>,
}

impl<'a> OutputSender<'a> {
    fn new(process: &'a ManagedProcess, from: OutputOffsets, sender: FrameSender<ServedStream>) -> Self {
        let follow = |stream| Follower::new(process.output(stream).clone(), from.get(stream));
        let (stdout, stderr) = (follow(OutputStream::Stdout), follow(OutputStream::Stderr));
        Self { process, sender, stdout, stderr, frame: vec![0; DATA_BYTES] }
    }

    async fn run(&mut self) -> Result<(), FrameError> {
        loop {
            let stdout = self.send_piece(OutputStream::Stdout).await?;
            let stderr = self.send_piece(OutputStream::Stderr).await?;
            match (stdout, stderr) {
                (SendStep::End, SendStep::End) => break,
                (SendStep::Sent, _) | (_, SendStep::Sent) => {}
                // Both followers have nothing: `read` marked their progress as seen, so a change since then is not missed.
                _ => tokio::select! {
                    () = self.stdout.changed() => {}
                    () = self.stderr.changed() => {}
                },
            }
        }
        // The output is closed a moment before the exit is known.
        let exit = self.process.ended().await;
        self.sender.send_message(&ProcessEvent::Exited(exit)).await?;
        self.sender.finish().await
    }

    async fn send_piece(&mut self, stream: OutputStream) -> Result<SendStep, FrameError> {
        let follower = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        // Read behind room for the header, so that header and bytes go as one frame without a copy.
        match follower.read(&mut self.frame[OutputChunk::HEADER_BYTES..])? {
            Piece::Bytes { offset, count } => {
                let header = OutputChunk::header(stream, offset);
                self.frame[..OutputChunk::HEADER_BYTES].copy_from_slice(&header);
                self.sender.send_data(&self.frame[..OutputChunk::HEADER_BYTES + count]).await?;
                Ok(SendStep::Sent)
            }
            Piece::Lost(bytes) => {
                self.sender.send_message(&ProcessEvent::Lost { bytes }).await?;
                Ok(SendStep::Sent)
            }
            Piece::Nothing => Ok(SendStep::Nothing),
            Piece::End => Ok(SendStep::End),
        }
    }
}

/// The result of one attempt to send output.
enum SendStep {
    Sent,
    Nothing,
    End,
}
