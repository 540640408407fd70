//! A stream on a process: its output from an offset and its end to the host, input, size and signals from the host.

use std::sync::Arc;

use sandyard_pipe::{Frame, FrameError, FrameReceiver, FrameSender};
use sandyard_protocol::limits::DATA_BYTES;
use sandyard_protocol::{
    EndReason, OutputChunk, OutputOffsets, OutputStream, ProcessEvent, ProcessInput, Reply,
};

use super::process::{Ending, Process};
use crate::keeper::Keeper;
use crate::keeper::capture::{Follower, Piece};
use crate::keeper::clock::milliseconds;
use crate::keeper::link::{HostStream, ServedStream};
use crate::limits::TERMINATION_GRACE;

/// Ends a process when the stream that started it is lost.
#[derive(Debug)]
pub(super) struct EndGuard(pub(super) Arc<Process>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end(Ending::after(EndReason::Cancelled, milliseconds(TERMINATION_GRACE)));
    }
}

/// Serves one stream until the process ended and all was sent, or the stream is lost.
pub(super) async fn serve(
    keeper: &Keeper,
    process: &Arc<Process>,
    from: OutputOffsets,
    mut stream: HostStream,
    _guard: Option<EndGuard>,
) {
    if stream.send_message(&Reply::Process(process.info())).await.is_err() {
        return;
    }
    let (receiver, sender) = stream.split();
    let mut sending = Sending::new(process, from, sender);
    // Whatever goes wrong on the stream ends the stream alone.
    tokio::select! {
        outcome = sending.run() => drop(outcome),
        _lost = receive(keeper, process, receiver) => {}
    }
}

/// Takes input. Returns when the stream is lost or malformed; yamux shows a lost stream as an ended one, so a host that
/// follows a process keeps its side open.
async fn receive(
    keeper: &Keeper,
    process: &Process,
    mut receiver: FrameReceiver<ServedStream>,
) -> FrameError {
    loop {
        match receiver.receive().await {
            Ok(Some(Frame::Data(bytes))) => process.input.write(&bytes).await,
            Ok(Some(Frame::Message(message))) => match serde_json::from_slice(&message) {
                Ok(ProcessInput::Close) => process.close_input(keeper.host.as_ref()).await,
                Ok(ProcessInput::Resize(size)) => process.resize(size),
                // A signal that can't be sent changes nothing; the stream has no place for an answer.
                Ok(ProcessInput::Signal(signal)) => drop(process.signal(keeper.host.as_ref(), signal).await),
                Err(error) => return FrameError::Malformed(error.to_string()),
            },
            Ok(None) => return FrameError::Ended,
            Err(error) => return error,
        }
    }
}

struct Sending<'a> {
    process: &'a Process,
    sender: FrameSender<ServedStream>,
    stdout: Follower,
    stderr: Follower,
    frame: Vec<u8>,
}

impl<'a> Sending<'a> {
    fn new(process: &'a Process, from: OutputOffsets, sender: FrameSender<ServedStream>) -> Self {
        let follow = |stream| Follower::new(process.output(stream).clone(), from.get(stream));
        let (stdout, stderr) = (follow(OutputStream::Stdout), follow(OutputStream::Stderr));
        Self { process, sender, stdout, stderr, frame: vec![0; DATA_BYTES] }
    }

    async fn run(&mut self) -> Result<(), FrameError> {
        loop {
            let stdout = self.send_piece(OutputStream::Stdout).await?;
            let stderr = self.send_piece(OutputStream::Stderr).await?;
            match (stdout, stderr) {
                (Step::End, Step::End) => break,
                (Step::Sent, _) | (_, Step::Sent) => {}
                _ => tokio::select! {
                    () = self.stdout.changed() => {}
                    () = self.stderr.changed() => {}
                },
            }
        }
        // Output is closed a moment before the exit is known.
        let exit = self.process.ended().await;
        self.sender.send_message(&ProcessEvent::Exited(exit)).await?;
        self.sender.finish().await
    }

    async fn send_piece(&mut self, stream: OutputStream) -> Result<Step, FrameError> {
        let follower = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        match follower.read(&mut self.frame[OutputChunk::HEADER_BYTES..])? {
            Piece::Bytes { offset, count } => {
                let header = OutputChunk::header(stream, offset);
                self.frame[..OutputChunk::HEADER_BYTES].copy_from_slice(&header);
                self.sender.send_data(&self.frame[..OutputChunk::HEADER_BYTES + count]).await?;
                Ok(Step::Sent)
            }
            Piece::Lost(bytes) => {
                self.sender.send_message(&ProcessEvent::Lost { bytes }).await?;
                Ok(Step::Sent)
            }
            Piece::Nothing => Ok(Step::Nothing),
            Piece::End => Ok(Step::End),
        }
    }
}

enum Step {
    Sent,
    Nothing,
    End,
}
