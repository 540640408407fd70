//! The workers of the desktop: hands on the display.

use std::time::Duration;

use bytes::Bytes;
use sandyard_pipe::{Frame, FrameError};

use super::hands::worker::{Order, ROLE, Report};
use crate::keeper::Keeper;
use crate::keeper::processes::environment;
use crate::keeper::workers::{self, Burial, Worker, Workers};
use crate::limits::IDLE_WORKERS;

/// The pool. Two may rest: one that acts, one that looks.
#[derive(Debug)]
pub(super) struct DesktopWorkers(Workers);

/// One worker; dropping it kills it.
#[derive(Debug)]
pub(super) struct DesktopWorker(Worker);

/// A worker could not do its work.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkerError {
    #[error(transparent)]
    Start(#[from] workers::WorkerError),
    #[error("the desktop worker failed: {0}")]
    Frame(#[from] FrameError),
    #[error("the desktop worker broke its protocol")]
    Malformed,
    #[error("the display does not answer")]
    Stalled,
}

impl DesktopWorkers {
    /// An empty pool of the nth keeper.
    pub(super) fn new(keeper_number: u64, dead: Burial) -> Self {
        Self(Workers::new(ROLE, IDLE_WORKERS, keeper_number, dead))
    }

    /// A worker that finds the display by the job's own environment.
    pub(super) async fn take(&self, keeper: &Keeper) -> Result<DesktopWorker, WorkerError> {
        Ok(DesktopWorker(self.0.take(keeper, || environment(keeper)).await?))
    }

    /// Keeps a worker for the next order, for a while.
    pub(super) fn put_back(&self, keeper: &Keeper, worker: DesktopWorker) {
        self.0.put_back(keeper, worker.0);
    }

    /// Ends the idle ones: their display is gone.
    pub(super) fn dismiss(&self) {
        self.0.dismiss();
    }
}

impl DesktopWorker {
    /// Gives an order and waits for the report; the picture, if any, is then read with `next_part`.
    pub(super) async fn obey(&mut self, order: &Order, patience: Duration) -> Result<Report, WorkerError> {
        let exchange = async {
            self.0.sender.send_message(order).await?;
            Ok(self.0.receiver.receive_message::<Report>().await?)
        };
        tokio::time::timeout(patience, exchange).await.unwrap_or(Err(WorkerError::Stalled))
    }

    /// The next bytes of the picture; `None` at its end.
    pub(super) async fn next_part(&mut self, patience: Duration) -> Result<Option<Bytes>, WorkerError> {
        match tokio::time::timeout(patience, self.0.receiver.receive()).await {
            Ok(Ok(Some(Frame::Data(part)))) => Ok((!part.is_empty()).then_some(part)),
            Ok(Ok(_)) => Err(WorkerError::Malformed),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(WorkerError::Stalled),
        }
    }
}
