//! The workers that act on the display.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sandyard_pipe::{Frame, FrameError};

use super::automation::worker::{ROLE, WorkerOrder, WorkerReport};
use crate::keeper::processes::Processes;
use crate::keeper::workers::{Worker, WorkerError, WorkerPool, WorkerStarter};
use crate::limits::IDLE_WORKERS;

/// The workers that act on the display. Two may rest: one that acts, one that looks.
#[derive(Debug)]
pub(super) struct DesktopWorkers {
    pool: WorkerPool,
    processes: Arc<Processes>,
}

/// One worker. Dropping it kills it.
#[derive(Debug)]
pub(super) struct DesktopWorker(Worker);

/// An order that a worker did not carry out.
#[derive(Debug, thiserror::Error)]
pub(super) enum DesktopWorkerError {
    #[error(transparent)]
    Start(#[from] WorkerError),
    #[error("the desktop worker failed: {0}")]
    Frame(#[from] FrameError),
    #[error("the desktop worker broke its protocol")]
    Malformed,
    #[error("the display does not answer")]
    Stalled,
}

impl DesktopWorkers {
    pub(super) fn new(starter: WorkerStarter, processes: Arc<Processes>) -> Self {
        Self { pool: WorkerPool::new(starter, ROLE, IDLE_WORKERS), processes }
    }

    /// Returns a worker that finds the display by the job's own environment.
    pub(super) async fn take(&self) -> Result<DesktopWorker, DesktopWorkerError> {
        Ok(DesktopWorker(self.pool.take(|| self.processes.environment().whole()).await?))
    }

    /// Keeps a worker for the next order, for a while.
    pub(super) fn put_back(&self, worker: DesktopWorker) {
        self.pool.put_back(worker.0);
    }

    /// Ends the idle workers.
    pub(super) fn dismiss(&self) {
        self.pool.dismiss();
    }
}

impl DesktopWorker {
    /// Gives an order and waits for the report. The caller then reads the picture with `next_part` up to its end.
    pub(super) async fn obey(
        &mut self,
        order: &WorkerOrder,
        deadline: Duration,
    ) -> Result<WorkerReport, DesktopWorkerError> {
        let exchange = async {
            self.0.sender.send_message(order).await?;
            Ok(self.0.receiver.receive_message::<WorkerReport>().await?)
        };
        // A cancelled exchange leaves the worker out of step. The caller drops it, which kills it.
        tokio::time::timeout(deadline, exchange).await.unwrap_or(Err(DesktopWorkerError::Stalled))
    }

    /// Reads a picture of exactly the announced length, at most `limit` bytes. After `None` the worker is out of step.
    pub(super) async fn picture(&mut self, length: u64, limit: u64, deadline: Duration) -> Option<Vec<u8>> {
        if length > limit {
            return None;
        }
        let mut png = Vec::new();
        while let Some(part) = self.next_part(deadline).await.ok()? {
            // The worker runs as the job's user: it may send more than it announced.
            if png.len() as u64 + part.len() as u64 > length {
                return None;
            }
            png.extend_from_slice(&part);
        }
        (png.len() as u64 == length).then_some(png)
    }

    /// Returns the next bytes of the picture; `None` at its end.
    pub(super) async fn next_part(
        &mut self,
        deadline: Duration,
    ) -> Result<Option<Bytes>, DesktopWorkerError> {
        match tokio::time::timeout(deadline, self.0.receiver.receive()).await {
            Ok(Ok(Some(Frame::Data(part)))) => Ok((!part.is_empty()).then_some(part)),
            Ok(Ok(_)) => Err(DesktopWorkerError::Malformed),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(DesktopWorkerError::Stalled),
        }
    }
}
