//! Workers: this program in a role of its own, run as the job's user. A worker is started when it is needed, kept for a short
//! while, never trusted, and serves one operation at a time. `files` and `desktop` each have a pool of them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use sandyard_pipe::{FrameReceiver, FrameSender, Framed};
use sandyard_protocol::ProcessId;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::core::KeeperCore;
use super::stream::FRAME_LIMITS;
use crate::limits::WORKER_REST;
use crate::process_host::{Command, OWN_PROGRAM, SpawnError};

const SIGKILL: i32 = 9;

/// Both pipes of a worker as one stream.
type WorkerStream = tokio::io::Join<pipe::Receiver, pipe::Sender>;
type IdleWorkers = Arc<Mutex<Vec<Worker>>>;

/// Starts workers for all pools.
#[derive(Debug, Clone)]
pub(super) struct WorkerStarter {
    core: Arc<KeeperCore>,
    workspace: PathBuf,
    /// Names of dropped workers. Unbounded, but it holds at most one name for each worker.
    dropped: mpsc::UnboundedSender<ProcessId>,
}

impl WorkerStarter {
    /// Also begins the task that kills dropped workers. The end of their pipes would make them leave, but the job can stop a
    /// worker from noticing.
    pub(super) fn new(core: Arc<KeeperCore>, workspace: PathBuf) -> Self {
        let (dropped, mut names) = mpsc::unbounded_channel();
        let owner = core.clone();
        core.tasks.spawn(async move {
            while let Some(id) = names.recv().await {
                let _ = owner.host.signal(&id, SIGKILL).await;
            }
        });
        Self { core, workspace, dropped }
    }

    async fn start(
        &self,
        role: &str,
        number: u64,
        env: BTreeMap<String, String>,
    ) -> Result<Worker, WorkerError> {
        let id = ProcessId(format!("{role}{}-{number}", self.core.number));
        let workspace = self.workspace.to_string_lossy().into_owned();
        let command = Command {
            id: id.clone(),
            argv: vec![OWN_PROGRAM.to_owned(), role.to_owned(), workspace],
            // The job may have closed its own directory to everybody.
            cwd: "/".to_owned(),
            env,
            terminal: None,
            stdin: true,
        };
        // Before the start: a worker that is started while everything is killed counts as killed.
        let kills = self.core.host.kills();
        let spawned = self.core.host.spawn(command).await?;
        let input = spawned.stdin.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let reader = pipe::Receiver::from_owned_fd(spawned.stdout)?;
        let stream = tokio::io::join(reader, pipe::Sender::from_owned_fd(input)?);
        let (receiver, sender) = Framed::new(stream, FRAME_LIMITS).split();
        let dropped = self.dropped.clone();
        Ok(Worker { receiver, sender, number, kills, id, dropped, _stderr: spawned.stderr })
    }
}

/// A pool of workers in one role.
#[derive(Debug)]
pub(super) struct WorkerPool {
    starter: WorkerStarter,
    role: &'static str,
    most_idle: usize,
    idle: IdleWorkers,
    next_number: AtomicU64,
}

/// One worker. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) receiver: FrameReceiver<WorkerStream>,
    pub(super) sender: FrameSender<WorkerStream>,
    number: u64,
    /// Count of [`ProcessHost::kills`](crate::process_host::ProcessHost::kills) when it was started.
    kills: u64,
    id: ProcessId,
    dropped: mpsc::UnboundedSender<ProcessId>,
    _stderr: Option<OwnedFd>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails only while keeper itself is stopping.
        let _ = self.dropped.send(self.id.clone());
    }
}

impl Worker {
    /// True if the worker lives: a living worker sends nothing between operations.
    pub(super) fn is_silent(&mut self) -> bool {
        self.receiver.receive().now_or_never().is_none()
    }
}

/// No worker could be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkerError {
    #[error("start a worker: {0}")]
    Spawn(#[from] SpawnError),
    /// Its pipes can't be used.
    #[error("talk to a worker: {0}")]
    Pipe(#[from] io::Error),
}

impl WorkerPool {
    /// An empty pool that keeps at most `most_idle` workers for the next operation.
    pub(super) fn new(starter: WorkerStarter, role: &'static str, most_idle: usize) -> Self {
        Self { starter, role, most_idle, idle: IdleWorkers::default(), next_number: AtomicU64::new(1) }
    }

    /// Returns an idle worker that still lives, or starts a new one in this environment.
    pub(super) async fn take(
        &self,
        env: impl FnOnce() -> BTreeMap<String, String>,
    ) -> Result<Worker, WorkerError> {
        while let Some(mut worker) = self.pop() {
            // A worker that ended, or speaks without being asked, can't be trusted with the next operation. Dropping it kills it.
            // One that was killed with the job's processes may look alive for a moment.
            if self.outlived_kills(&worker) && worker.is_silent() {
                return Ok(worker);
            }
        }
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        self.starter.start(self.role, number, env()).await
    }

    fn outlived_kills(&self, worker: &Worker) -> bool {
        worker.kills == self.starter.core.host.kills()
    }

    fn pop(&self) -> Option<Worker> {
        lock(&self.idle).pop()
    }

    /// Keeps a worker for the next operation, for `WORKER_REST`.
    pub(super) fn put_back(&self, worker: Worker) {
        let number = worker.number;
        {
            let mut idle = lock(&self.idle);
            if idle.len() >= self.most_idle {
                return;
            }
            idle.push(worker);
        }
        let idle = Arc::clone(&self.idle);
        self.starter.core.tasks.spawn(async move {
            tokio::time::sleep(WORKER_REST).await;
            lock(&idle).retain(|worker| worker.number != number);
        });
    }

    /// Ends the idle workers.
    pub(super) fn dismiss(&self) {
        lock(&self.idle).clear();
    }
}

fn lock(idle: &IdleWorkers) -> parking_lot::MutexGuard<'_, Vec<Worker>> {
    idle.lock()
}
