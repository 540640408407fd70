//! Looks for changed files in the workspace: one worker, kept for as long as keeper lives, because it remembers the last state.
//!
//! The worker runs as the job's user, so the job can kill or stop it. The next look then starts from nothing, and says so.

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::{Frame, FrameError};
use sandyard_protocol::{GuestError, GuestErrorCode, Reply, Request};
use tokio::sync::Mutex;

use super::environment::ProcessEnvironment;
use super::files::worker::CHANGES_ROLE;
use super::stream::{HostStream, reply};
use super::workers::{Worker, WorkerError, WorkerPool, WorkerStarter};
use crate::limits::CHANGES_TIME;

/// A look ends by itself after a few times `CHANGES_TIME`. One that takes longer is stuck, or was stopped by the job.
const LOOK_DEADLINE: Duration = CHANGES_TIME.saturating_mul(40);

/// Serves `WorkspaceChanges` with one worker, which remembers the files that it saw last.
#[derive(Debug)]
pub(super) struct ChangeDetector {
    workers: WorkerPool,
    environment: Arc<ProcessEnvironment>,
    /// The worker of the last look, if that look succeeded.
    present: Mutex<Option<Worker>>,
}

/// A look without an answer.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("no worker could be started")]
    Worker(#[from] WorkerError),
    #[error("the worker failed")]
    Failed(#[from] FrameError),
    #[error("the worker ended early")]
    Ended,
    #[error("the worker does not answer")]
    Stalled(#[from] tokio::time::error::Elapsed),
}

impl ChangeDetector {
    pub(super) fn new(starter: WorkerStarter, environment: Arc<ProcessEnvironment>) -> Self {
        Self { workers: WorkerPool::new(starter, CHANGES_ROLE, 0), environment, present: Mutex::default() }
    }

    /// Looks once and sends the answer. Concurrent requests wait for each other.
    pub(super) async fn serve(&self, mut stream: HostStream) {
        let answer = match self.look().await {
            Ok(answer @ (Reply::Changes(_) | Reply::Failed(_))) => answer,
            Ok(_) => {
                Reply::Failed(GuestError::new(GuestErrorCode::Internal, "the worker answered something else"))
            }
            Err(error) => Reply::Failed(GuestError::new(GuestErrorCode::Internal, error.to_string())),
        };
        reply(&mut stream, &answer).await;
    }

    async fn look(&self) -> Result<Reply, LookError> {
        let mut present = self.present.lock().await;
        // The worker is taken out before it is asked: one that fails below is dropped and thereby killed.
        let living = present.take().and_then(|mut worker| worker.is_silent().then_some(worker));
        let mut worker = match living {
            Some(worker) => worker,
            None => self.workers.take(|| self.environment.of_image().clone()).await?,
        };
        let answer = tokio::time::timeout(LOOK_DEADLINE, ask(&mut worker)).await??;
        *present = Some(worker);
        Ok(answer)
    }
}

/// Sends one request and reads the answer, including both closing frames.
async fn ask(worker: &mut Worker) -> Result<Reply, LookError> {
    worker.sender.send_message(&Request::WorkspaceChanges).await?;
    worker.sender.send_data(&[]).await?;
    let answer = match worker.receiver.receive().await? {
        Some(Frame::Message(json)) => {
            serde_json::from_slice(&json).map_err(|error| FrameError::Malformed(error.to_string()))?
        }
        Some(Frame::Data(_)) | None => return Err(LookError::Ended),
    };
    match worker.receiver.receive().await? {
        Some(Frame::Data(end)) if end.is_empty() => Ok(answer),
        _ => Err(LookError::Ended),
    }
}
