//! Looks at the workspace for the host: one worker, kept for as long as keeper lives, because it remembers what it saw.
//!
//! It runs as the job's user, so the job can kill it or stop it. Then the next look is the first one again, and says so.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use sandyard_pipe::{Frame, FrameError};
use sandyard_protocol::{GuestError, GuestErrorCode, Reply, Request};
use tokio::sync::Mutex;

use super::Keeper;
use super::files::worker::CHANGES_ROLE;
use super::link::{HostStream, reply};
use super::workers::{Burial, Worker, WorkerError, Workers};
use crate::limits::CHANGES_TIME;

/// A look ends by itself after a few times `CHANGES_TIME`; one that takes longer is stuck, or was stopped by the job.
const STALL: Duration = CHANGES_TIME.saturating_mul(40);

/// The worker.
#[derive(Debug)]
pub(super) struct Changes {
    workers: Workers,
    present: Mutex<Option<Worker>>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("no worker could be had")]
    Worker(#[from] WorkerError),
    #[error("the worker failed")]
    Failed(#[from] FrameError),
    #[error("the worker ended early")]
    Ended,
    #[error("the worker does not answer")]
    Stalled(#[from] tokio::time::error::Elapsed),
}

impl Changes {
    /// No worker yet; of the nth keeper.
    pub(super) fn new(keeper_number: u64, dead: Burial) -> Self {
        Self { workers: Workers::new(CHANGES_ROLE, 0, keeper_number, dead), present: Mutex::default() }
    }

    async fn look(&self, keeper: &Keeper) -> Result<Reply, LookError> {
        let mut present = self.present.lock().await;
        // A living worker has nothing to say between looks.
        let living = present.take().and_then(|mut worker| {
            let silent = worker.receiver.receive().now_or_never().is_none();
            silent.then_some(worker)
        });
        let mut worker = match living {
            Some(worker) => worker,
            None => self.workers.take(keeper, || keeper.config.env.clone()).await?,
        };
        let answer = tokio::time::timeout(STALL, ask(&mut worker)).await??;
        *present = Some(worker);
        Ok(answer)
    }
}

/// One request from its first frame to both closing frames.
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

/// Serves `WorkspaceChanges`.
pub(super) async fn serve(keeper: Arc<Keeper>, mut stream: HostStream) {
    let answer = match keeper.changes.look(&keeper).await {
        Ok(answer @ (Reply::Changes(_) | Reply::Failed(_))) => answer,
        Ok(_) => {
            Reply::Failed(GuestError::new(GuestErrorCode::Internal, "the worker answered something else"))
        }
        Err(error) => Reply::Failed(GuestError::new(GuestErrorCode::Internal, error.to_string())),
    };
    reply(&mut stream, &answer).await;
}
