//! The workers of file operations, at most `FILE_WORKERS` at a time.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::worker::ROLE;
use crate::keeper::environment::ProcessEnvironment;
use crate::keeper::workers::{Worker, WorkerError, WorkerPool, WorkerStarter};
use crate::limits::{FILE_WORKERS, IDLE_WORKERS};

/// The workers of file operations.
#[derive(Debug)]
pub(in crate::keeper) struct FileWorkers {
    turns: Semaphore,
    workers: WorkerPool,
    environment: Arc<ProcessEnvironment>,
}

impl FileWorkers {
    pub(in crate::keeper) fn new(starter: WorkerStarter, environment: Arc<ProcessEnvironment>) -> Self {
        let workers = WorkerPool::new(starter, ROLE, IDLE_WORKERS);
        Self { turns: Semaphore::new(FILE_WORKERS), workers, environment }
    }

    /// Waits for a turn; `None` when keeper is stopping.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Returns a worker. It needs none of the variables that the job sets.
    pub(super) async fn take(&self) -> Result<Worker, WorkerError> {
        self.workers.take(|| self.environment.of_image().clone()).await
    }

    /// Keeps a worker for the next operation, for a while.
    pub(super) fn put_back(&self, worker: Worker) {
        self.workers.put_back(worker);
    }
}
