//! The workers of file operations, so many at a time.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::worker::ROLE;
use crate::keeper::Keeper;
use crate::keeper::workers::{Burial, Worker, WorkerError, Workers};
use crate::limits::{FILE_WORKERS, IDLE_WORKERS};

/// The pool.
#[derive(Debug)]
pub(in crate::keeper) struct FileWorkers {
    turns: Semaphore,
    workers: Workers,
}

impl FileWorkers {
    /// An empty pool of the nth keeper.
    pub(in crate::keeper) fn new(keeper_number: u64, dead: Burial) -> Self {
        let workers = Workers::new(ROLE, IDLE_WORKERS, keeper_number, dead);
        Self { turns: Semaphore::new(FILE_WORKERS), workers }
    }

    /// Waits for a turn; `None` when keeper is stopping.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// A worker. It needs nothing of what the job set in its environment.
    pub(super) async fn take(&self, keeper: &Keeper) -> Result<Worker, WorkerError> {
        self.workers.take(keeper, || keeper.config.env.clone()).await
    }

    /// Keeps a worker for the next operation, for a while.
    pub(super) fn put_back(&self, keeper: &Keeper, worker: Worker) {
        self.workers.put_back(keeper, worker);
    }
}
