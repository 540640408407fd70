//! File workers: started when needed, kept for a moment, never trusted. One serves one operation at a time.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use sandyard_pipe::{FrameReceiver, FrameSender, Framed};
use sandyard_protocol::ProcessId;
use tokio::net::unix::pipe;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

use super::worker::ROLE;
use crate::keeper::Keeper;
use crate::keeper::limits::{FILE_WORKER_REST, FILE_WORKERS, IDLE_FILE_WORKERS};
use crate::keeper::link::FRAME_LIMITS;
use crate::process_host::{Command, OWN_PROGRAM, SpawnError};

const SIGKILL: i32 = 9;

/// Both pipes of a worker as one stream.
type WorkerStream = tokio::io::Join<pipe::Receiver, pipe::Sender>;

/// The pool.
#[derive(Debug)]
pub(in crate::keeper) struct Workers {
    turns: Semaphore,
    idle: Mutex<Vec<Worker>>,
    // Unbounded, but holds at most one name for each worker, and those are bounded by `turns` and `IDLE_FILE_WORKERS`.
    dead: mpsc::UnboundedSender<ProcessId>,
    keeper_number: u64,
    next_number: AtomicU64,
}

/// One worker; dropping it kills it.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) receiver: FrameReceiver<WorkerStream>,
    pub(super) sender: FrameSender<WorkerStream>,
    number: u64,
    id: ProcessId,
    dead: mpsc::UnboundedSender<ProcessId>,
    _stderr: Option<OwnedFd>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails only when keeper itself is going.
        let _ = self.dead.send(self.id.clone());
    }
}

/// No worker could be had.
#[derive(Debug, thiserror::Error)]
pub(in crate::keeper) enum WorkerError {
    /// It could not be started.
    #[error("start a file worker")]
    Spawn(#[from] SpawnError),
    /// Its pipes are of no use.
    #[error("talk to a file worker")]
    Pipe(#[from] io::Error),
}

impl Workers {
    /// An empty pool of the nth keeper, and where the names of dropped workers arrive.
    pub(in crate::keeper) fn new(keeper_number: u64) -> (Self, mpsc::UnboundedReceiver<ProcessId>) {
        let (dead, buried) = mpsc::unbounded_channel();
        let turns = Semaphore::new(FILE_WORKERS);
        let workers =
            Self { turns, idle: Mutex::default(), dead, keeper_number, next_number: AtomicU64::new(1) };
        (workers, buried)
    }

    /// Where the names of workers that were dropped go, also those of the desktop.
    pub(in crate::keeper) fn burial(&self) -> mpsc::UnboundedSender<ProcessId> {
        self.dead.clone()
    }

    /// Waits for a turn; `None` when keeper is stopping.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// An idle worker that still lives, or a new one.
    pub(super) async fn take(&self, keeper: &Keeper) -> Result<Worker, WorkerError> {
        while let Some(mut worker) = self.pop() {
            // A living worker has nothing to say between operations.
            if worker.receiver.receive().now_or_never().is_none() {
                return Ok(worker);
            }
        }
        self.start(keeper).await
    }

    fn pop(&self) -> Option<Worker> {
        self.idle().pop()
    }

    /// Keeps a worker for the next operation, for a while.
    pub(super) fn put_back(&self, keeper: &Arc<Keeper>, worker: Worker) {
        let mut idle = self.idle();
        if idle.len() >= IDLE_FILE_WORKERS {
            return;
        }
        let number = worker.number;
        idle.push(worker);
        drop(idle);
        let owner = keeper.clone();
        keeper.tasks.spawn(async move {
            tokio::time::sleep(FILE_WORKER_REST).await;
            owner.files.idle().retain(|worker| worker.number != number);
        });
    }

    async fn start(&self, keeper: &Keeper) -> Result<Worker, WorkerError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let id = ProcessId(format!("files{}-{number}", self.keeper_number));
        let command = Command {
            id: id.clone(),
            argv: vec![OWN_PROGRAM.to_owned(), ROLE.to_owned()],
            cwd: keeper.config.workspace.to_string_lossy().into_owned(),
            env: keeper.config.env.clone(),
            terminal: None,
            stdin: true,
        };
        let spawned = keeper.host.spawn(command).await?;
        let input = spawned.stdin.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let reader = pipe::Receiver::from_owned_fd(spawned.stdout)?;
        let stream = tokio::io::join(reader, pipe::Sender::from_owned_fd(input)?);
        let (receiver, sender) = Framed::new(stream, FRAME_LIMITS).split();
        Ok(Worker { receiver, sender, number, id, dead: self.dead.clone(), _stderr: spawned.stderr })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills workers that were dropped; the end of their pipes would do, but the job can stop a worker from noticing.
pub(in crate::keeper) async fn bury(keeper: Arc<Keeper>, mut dead: mpsc::UnboundedReceiver<ProcessId>) {
    while let Some(id) = dead.recv().await {
        let mut kill = pin!(keeper.host.signal(&id, SIGKILL));
        let _ = (&mut kill).await;
    }
}
