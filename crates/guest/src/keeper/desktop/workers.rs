//! Desktop workers: hands on the display, run as the job's own user. Started when needed, kept for a moment, never trusted.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use sandyard_pipe::{Frame, FrameError, FrameReceiver, FrameSender, Framed};
use sandyard_protocol::ProcessId;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::hands::worker::{Order, ROLE, Report};
use crate::keeper::Keeper;
use crate::keeper::limits::FILE_WORKER_REST;
use crate::keeper::link::FRAME_LIMITS;
use crate::keeper::processes::environment;
use crate::process_host::{Command, OWN_PROGRAM, SpawnError};

/// Workers kept for the next action: one that acts, one that looks.
const IDLE_WORKERS: usize = 2;

type WorkerStream = tokio::io::Join<pipe::Receiver, pipe::Sender>;

/// The pool.
#[derive(Debug)]
pub(super) struct Workers {
    idle: Mutex<Vec<Worker>>,
    keeper_number: u64,
    next_number: AtomicU64,
}

/// One worker; dropping it kills it.
#[derive(Debug)]
pub(super) struct Worker {
    receiver: FrameReceiver<WorkerStream>,
    sender: FrameSender<WorkerStream>,
    number: u64,
    id: ProcessId,
    dead: mpsc::UnboundedSender<ProcessId>,
    _stderr: Option<OwnedFd>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.dead.send(self.id.clone());
    }
}

/// A worker could not do its work.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkerError {
    #[error("start a desktop worker: {0}")]
    Spawn(#[from] SpawnError),
    #[error("talk to a desktop worker: {0}")]
    Pipe(#[from] io::Error),
    #[error("the desktop worker failed: {0}")]
    Frame(#[from] FrameError),
    #[error("the desktop worker broke its protocol")]
    Malformed,
    #[error("the display does not answer")]
    Stalled,
}

impl Workers {
    /// An empty pool of the nth keeper.
    pub(super) fn new(keeper_number: u64) -> Self {
        Self { idle: Mutex::default(), keeper_number, next_number: AtomicU64::new(1) }
    }

    /// An idle worker that still lives, or a new one.
    pub(super) async fn take(&self, keeper: &Keeper) -> Result<Worker, WorkerError> {
        while let Some(mut worker) = self.pop() {
            // A living worker has nothing to say between orders.
            if worker.receiver.receive().now_or_never().is_none() {
                return Ok(worker);
            }
        }
        self.start(keeper).await
    }

    fn pop(&self) -> Option<Worker> {
        self.idle().pop()
    }

    /// Keeps a worker for the next order, for a while.
    pub(super) fn put_back(&self, keeper: &Arc<Keeper>, worker: Worker) {
        let mut idle = self.idle();
        if idle.len() >= IDLE_WORKERS {
            return;
        }
        let number = worker.number;
        idle.push(worker);
        drop(idle);
        let owner = keeper.clone();
        keeper.tasks.spawn(async move {
            tokio::time::sleep(FILE_WORKER_REST).await;
            owner.desktop.workers.idle().retain(|worker| worker.number != number);
        });
    }

    /// Ends the idle ones: their display is gone.
    pub(super) fn dismiss(&self) {
        self.idle().clear();
    }

    async fn start(&self, keeper: &Keeper) -> Result<Worker, WorkerError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let id = ProcessId(format!("desktop{}-{number}", self.keeper_number));
        let command = Command {
            id: id.clone(),
            argv: vec![OWN_PROGRAM.to_owned(), ROLE.to_owned()],
            cwd: keeper.config.workspace.to_string_lossy().into_owned(),
            env: environment(keeper),
            terminal: None,
            stdin: true,
        };
        let spawned = keeper.host.spawn(command).await?;
        let input = spawned.stdin.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let reader = pipe::Receiver::from_owned_fd(spawned.stdout)?;
        let stream = tokio::io::join(reader, pipe::Sender::from_owned_fd(input)?);
        let (receiver, sender) = Framed::new(stream, FRAME_LIMITS).split();
        Ok(Worker { receiver, sender, number, id, dead: keeper.files.burial(), _stderr: spawned.stderr })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    /// Gives an order and waits for the report; the picture, if any, is then read with `next_part`.
    pub(super) async fn obey(&mut self, order: &Order, patience: Duration) -> Result<Report, WorkerError> {
        let exchange = async {
            self.sender.send_message(order).await?;
            Ok(self.receiver.receive_message::<Report>().await?)
        };
        tokio::time::timeout(patience, exchange).await.unwrap_or(Err(WorkerError::Stalled))
    }

    /// The next bytes of the picture; `None` at its end.
    pub(super) async fn next_part(&mut self, patience: Duration) -> Result<Option<Bytes>, WorkerError> {
        match tokio::time::timeout(patience, self.receiver.receive()).await {
            Ok(Ok(Some(Frame::Data(part)))) => Ok((!part.is_empty()).then_some(part)),
            Ok(Ok(_)) => Err(WorkerError::Malformed),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(WorkerError::Stalled),
        }
    }
}
