//! Workers: this program in a role of its own, run as the job's user. Started when needed, kept for a moment, never trusted.
//! One serves one operation at a time; `files` and `desktop` each have a pool of them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use sandyard_pipe::{FrameReceiver, FrameSender, Framed};
use sandyard_protocol::ProcessId;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::Keeper;
use super::link::FRAME_LIMITS;
use crate::limits::WORKER_REST;
use crate::process_host::{Command, OWN_PROGRAM, SpawnError};

const SIGKILL: i32 = 9;

/// Both pipes of a worker as one stream.
type WorkerStream = tokio::io::Join<pipe::Receiver, pipe::Sender>;
type Idle = Arc<Mutex<Vec<Worker>>>;

/// A pool of workers in one role.
#[derive(Debug)]
pub(super) struct Workers {
    role: &'static str,
    most_idle: usize,
    idle: Idle,
    dead: Burial,
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
    dead: Burial,
    _stderr: Option<OwnedFd>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails only when keeper itself is going.
        let _ = self.dead.0.send(self.id.clone());
    }
}

/// No worker could be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkerError {
    /// It could not be started.
    #[error("start a worker: {0}")]
    Spawn(#[from] SpawnError),
    /// Its pipes are of no use.
    #[error("talk to a worker: {0}")]
    Pipe(#[from] io::Error),
}

/// Where the names of dropped workers go. Unbounded, but it holds at most one name for each worker.
#[derive(Debug, Clone)]
pub(super) struct Burial(mpsc::UnboundedSender<ProcessId>);

/// The other end of a [`Burial`].
#[derive(Debug)]
pub(super) struct Dead(mpsc::UnboundedReceiver<ProcessId>);

/// A place for dropped workers.
pub(super) fn burial() -> (Burial, Dead) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Burial(sender), Dead(receiver))
}

/// Kills workers that were dropped; the end of their pipes would do, but the job can stop a worker from noticing.
pub(super) async fn bury(keeper: Arc<Keeper>, mut dead: Dead) {
    while let Some(id) = dead.0.recv().await {
        let _ = keeper.host.signal(&id, SIGKILL).await;
    }
}

impl Workers {
    /// An empty pool of the nth keeper, which keeps at most so many idle ones.
    pub(super) fn new(role: &'static str, most_idle: usize, keeper_number: u64, dead: Burial) -> Self {
        let (idle, next_number) = (Idle::default(), AtomicU64::new(1));
        Self { role, most_idle, idle, dead, keeper_number, next_number }
    }

    /// An idle worker that still lives, or a new one in this environment.
    pub(super) async fn take(
        &self,
        keeper: &Keeper,
        env: impl FnOnce() -> BTreeMap<String, String>,
    ) -> Result<Worker, WorkerError> {
        while let Some(mut worker) = self.pop() {
            // A living worker has nothing to say between operations.
            if worker.receiver.receive().now_or_never().is_none() {
                return Ok(worker);
            }
        }
        self.start(keeper, env()).await
    }

    fn pop(&self) -> Option<Worker> {
        lock(&self.idle).pop()
    }

    /// Keeps a worker for the next operation, for a while.
    pub(super) fn put_back(&self, keeper: &Keeper, worker: Worker) {
        let number = worker.number;
        {
            let mut idle = lock(&self.idle);
            if idle.len() >= self.most_idle {
                return;
            }
            idle.push(worker);
        }
        let idle = Arc::clone(&self.idle);
        keeper.tasks.spawn(async move {
            tokio::time::sleep(WORKER_REST).await;
            lock(&idle).retain(|worker| worker.number != number);
        });
    }

    /// Ends the idle ones.
    pub(super) fn dismiss(&self) {
        lock(&self.idle).clear();
    }

    async fn start(&self, keeper: &Keeper, env: BTreeMap<String, String>) -> Result<Worker, WorkerError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let id = ProcessId(format!("{}{}-{number}", self.role, self.keeper_number));
        let workspace = keeper.config.workspace.to_string_lossy().into_owned();
        let command = Command {
            id: id.clone(),
            argv: vec![OWN_PROGRAM.to_owned(), self.role.to_owned(), workspace],
            // The job may have closed its own folder to everybody.
            cwd: "/".to_owned(),
            env,
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
}

fn lock(idle: &Idle) -> std::sync::MutexGuard<'_, Vec<Worker>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
