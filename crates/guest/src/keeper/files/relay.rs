//! Carries one file operation between the host and a worker. The worker is as hostile as the job: its answers are bounded and
//! passed on unread, and a worker that is silent for too long is killed.

use std::sync::atomic::{AtomicBool, Ordering};

use sandyard_pipe::{Frame, FrameError, FrameReceiver, FrameSender};
use sandyard_protocol::{GuestError, GuestErrorCode, Reply, Request};

use super::pool::FileWorkers;
use crate::keeper::stream::{HostStream, ServedStream};
use crate::keeper::workers::{Worker, WorkerError};
use crate::limits::{FILE_WORKER_STALL, HOST_STALL, LINGER};

/// True for a request that a file worker serves.
pub(in crate::keeper) fn claims(request: &Request) -> bool {
    super::worker::operation(request).is_some()
}

/// An operation that was not carried to its end.
#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error("no file worker could be started")]
    Worker(#[from] WorkerError),
    #[error("the file worker failed")]
    WorkerFailed(#[source] FrameError),
    #[error("the file worker ended early")]
    WorkerEnded,
    #[error("the file worker does not answer")]
    Stalled,
    #[error("the host does not take the answer")]
    HostStalled,
    #[error("a message came where data belongs")]
    NotData,
    #[error("the host's stream failed")]
    Host(#[source] FrameError),
}

/// Serves a file request through a worker. Waits for a free turn first.
pub(in crate::keeper) async fn serve(workers: &FileWorkers, request: Request, stream: HostStream) {
    let Some(turn) = workers.turn().await else { return };
    let (mut host_receiver, sender) = stream.split();
    let mut host = FileAnswerSender { sender, answered: false };
    let outcome = operate(workers, &request, &mut host_receiver, &mut host).await;
    // Given back before the lingering below: a host that is slow to close must not keep other operations waiting.
    drop(turn);
    match outcome {
        Ok(()) | Err(RelayError::Host(_)) => {}
        // Half an answer can't be taken back. Dropping the stream without its end shows the host that it is incomplete.
        Err(_) if host.answered => return,
        Err(error) => {
            let failed = Reply::Failed(GuestError::new(GuestErrorCode::Internal, error.to_string()));
            let _ = host.sender.send_message(&failed).await;
        }
    }
    if host.sender.finish().await.is_ok() {
        let _ = tokio::time::timeout(LINGER, skip(&mut host_receiver)).await;
    }
}

/// The sending half of the host's stream.
struct FileAnswerSender {
    sender: FrameSender<ServedStream>,
    /// True once a frame was sent.
    answered: bool,
}

async fn operate(
    workers: &FileWorkers,
    request: &Request,
    host_receiver: &mut FrameReceiver<ServedStream>,
    host: &mut FileAnswerSender,
) -> Result<(), RelayError> {
    let mut worker = workers.take().await?;
    within_stall(worker.sender.send_message(request)).await?;
    let input = InputProgress {
        waits_for_host: matches!(request, Request::Write { .. }),
        ..InputProgress::default()
    };
    {
        let Worker { sender, receiver, .. } = &mut worker;
        let upward = carry_input(&input, host_receiver, sender);
        let downward = carry_answer(&input, receiver, host);
        tokio::pin!(upward, downward);
        loop {
            // Both directions at once: a worker may answer before it has read its input, and must not wait for its reader. The
            // answer decides the end; input that comes later is skipped.
            tokio::select! {
                answered = &mut downward => break answered?,
                carried = &mut upward, if !input.ended.load(Ordering::Relaxed) => carried?,
            }
        }
    }
    if input.sending.load(Ordering::Relaxed) {
        // The worker has received half a frame and would misread the next request: it is dropped.
        return Ok(());
    }
    if !input.ended.load(Ordering::Relaxed) {
        within_stall(worker.sender.send_data(&[])).await?;
    }
    workers.put_back(worker);
    Ok(())
}

/// How much of the host's input has reached the worker.
#[derive(Default)]
struct InputProgress {
    /// The worker can't answer before it has all input.
    waits_for_host: bool,
    /// A frame is on its way.
    sending: AtomicBool,
    ended: AtomicBool,
}

/// Carries data from the host to the worker, closed by an empty frame.
async fn carry_input<W: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    input: &InputProgress,
    host: &mut FrameReceiver<ServedStream>,
    worker: &mut FrameSender<W>,
) -> Result<(), RelayError> {
    loop {
        let data = match host.receive().await.map_err(RelayError::Host)? {
            Some(Frame::Data(data)) if data.is_empty() => continue,
            Some(Frame::Data(data)) => Some(data),
            Some(Frame::Message(_)) => return Err(RelayError::NotData),
            None => None,
        };
        // Marks the time in which cancelling would leave half a frame in the worker's pipe; `operate` then drops the worker.
        input.sending.store(true, Ordering::Relaxed);
        within_stall(worker.send_data(data.as_deref().unwrap_or(&[]))).await?;
        input.sending.store(false, Ordering::Relaxed);
        if data.is_none() {
            input.ended.store(true, Ordering::Relaxed);
            return Ok(());
        }
    }
}

/// Carries frames from the worker to the host, up to the worker's empty frame.
async fn carry_answer<W: tokio::io::AsyncRead + Unpin>(
    input: &InputProgress,
    worker: &mut FrameReceiver<W>,
    host: &mut FileAnswerSender,
) -> Result<(), RelayError> {
    loop {
        let frame = match tokio::time::timeout(FILE_WORKER_STALL, worker.receive()).await {
            Ok(frame) => frame.map_err(RelayError::WorkerFailed)?.ok_or(RelayError::WorkerEnded)?,
            // A worker that waits for a slow upload is not stuck.
            Err(_) if input.waits_for_host && !input.ended.load(Ordering::Relaxed) => continue,
            Err(_) => return Err(RelayError::Stalled),
        };
        if matches!(&frame, Frame::Data(data) if data.is_empty()) {
            return Ok(());
        }
        // Set before the send: a frame that is cut off halfway counts as an answer, too.
        host.answered = true;
        match tokio::time::timeout(HOST_STALL, host.sender.send_frame(&frame)).await {
            Ok(sent) => sent.map_err(RelayError::Host)?,
            Err(_) => return Err(RelayError::HostStalled),
        }
    }
}

async fn within_stall(send: impl Future<Output = Result<(), FrameError>>) -> Result<(), RelayError> {
    match tokio::time::timeout(FILE_WORKER_STALL, send).await {
        Ok(sent) => sent.map_err(RelayError::WorkerFailed),
        Err(_) => Err(RelayError::Stalled),
    }
}

/// Skips the rest of the host's input, so that the host reads the answer rather than a reset.
async fn skip(host: &mut FrameReceiver<ServedStream>) {
    while let Ok(Some(_)) = host.receive().await {}
}
