//! Keeper's side of the spawner's and init's sockets: the [`ProcessHost`] of a real sandbox.
//!
//! One task reads the spawner's socket; it hands answers to their callers and exits to `next_exit`. Init gets the descriptors of
//! each started process before the caller gets the process, so keeper may die at any point: if the next keeper finds a process at
//! the spawner without descriptors at init, no caller knows that process, and it is killed.

mod conversation;
mod succession;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use sandyard_protocol::ProcessId;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::init::messages::{HoldRequest, StreamPart};
use crate::process_host::{Command, OWN_PROGRAM, ProcessHost, RawExit, SpawnError, Spawned, Survivors};
use crate::spawner::messages::{SpawnerCall, SpawnerOutcome};
use conversation::{SpawnerAnswer, SpawnerConnection, read, refused};

/// The processes of a sandbox, through its spawner.
#[derive(Debug)]
pub struct SpawnerClient {
    shared: Arc<SpawnerConnection>,
    survivors: Mutex<Survivors>,
    reader: JoinHandle<()>,
    kills: AtomicU64,
}

impl SpawnerClient {
    /// Takes both sockets, takes over the processes of an earlier keeper, and starts reading. Must run in a tokio runtime.
    pub async fn connect(spawner: OwnedFd, init: OwnedFd, session: u64) -> Result<Self, SpawnError> {
        let shared = Arc::new(SpawnerConnection::new(spawner, init, session)?);
        // Reads before it asks: `take_over` waits for the answer to its roll.
        let reader = tokio::spawn(read(Arc::clone(&shared)));
        let client = Self { shared, survivors: Mutex::default(), reader, kills: AtomicU64::new(0) };
        let survivors = client.shared.take_over().await?;
        *client.survivors.lock() = survivors;
        Ok(client)
    }

    /// Runs in a task of its own, so that a caller who goes away leaves no unknown process.
    async fn begin(&self, command: Command, input: Option<OwnedFd>) -> Result<Spawned, SpawnError> {
        let (sender, receiver) = oneshot::channel();
        let (shared, id) = (Arc::clone(&self.shared), command.id.clone());
        tokio::spawn(async move {
            // The caller is gone: nobody will ever ask for this process.
            if let Err(Ok(_)) = sender.send(shared.spawn(command, input).await) {
                drop(shared.discard(&id).await);
            }
        });
        receiver.await.map_err(|_| SpawnError::Gone)?
    }
}

impl Drop for SpawnerClient {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

#[async_trait]
impl ProcessHost for SpawnerClient {
    async fn spawn(&self, command: Command) -> Result<Spawned, SpawnError> {
        self.begin(command, None).await
    }

    async fn spawn_with_input(&self, command: Command, input: OwnedFd) -> Result<Spawned, SpawnError> {
        self.begin(command, Some(input)).await
    }

    async fn signal(&self, id: &ProcessId, signal: i32) -> Result<(), SpawnError> {
        self.shared.order(SpawnerCall::Signal { id: id.clone(), signal }).await
    }

    async fn signal_deaf(&self, id: &ProcessId, signal: i32) -> Result<(), SpawnError> {
        self.shared.order(SpawnerCall::SignalDeaf { id: id.clone(), signal }).await
    }

    async fn close_stdin(&self, id: &ProcessId) -> Result<(), SpawnError> {
        self.shared
            .tell_init(&HoldRequest::Release { id: id.clone(), part: StreamPart::Input }, Vec::new())
            .await
    }

    async fn kill_everything(&self) -> Result<(), SpawnError> {
        let killed = self.shared.order(SpawnerCall::KillEverything).await;
        // Afterwards: everything that was started before the answer counts as killed.
        self.kills.fetch_add(1, Ordering::AcqRel);
        killed
    }

    fn kills(&self) -> u64 {
        self.kills.load(Ordering::Acquire)
    }

    async fn next_exit(&self) -> Result<RawExit, SpawnError> {
        self.shared.next_exit().await
    }

    async fn forget(&self, id: &ProcessId) -> Result<(), SpawnError> {
        self.shared.forget(id).await
    }

    async fn survivors(&self) -> Result<Survivors, SpawnError> {
        Ok(std::mem::take(&mut *self.survivors.lock()))
    }
}

impl SpawnerConnection {
    async fn spawn(&self, command: Command, input: Option<OwnedFd>) -> Result<Spawned, SpawnError> {
        let call = SpawnerCall::Spawn(command.clone());
        let SpawnerAnswer { outcome, fds } = self.ask_with(call, input.into_iter().collect()).await?;
        let SpawnerOutcome::Spawned { pid, stdin, stderr } = outcome else { return Err(refused(outcome)) };
        let spawned = sort(pid, fds, stdin, stderr).ok_or(SpawnError::Gone)?;
        // A worker of keeper's own must see that its keeper is gone, and is of no use to the next one.
        if command.argv.first().is_none_or(|program| program != OWN_PROGRAM) {
            self.hold(command, &spawned).await?;
        }
        Ok(spawned)
    }

    async fn forget(&self, id: &ProcessId) -> Result<(), SpawnError> {
        // The spawner first. If keeper dies in between, the next one finds descriptors without a process and releases them; the
        // other way round, it would find a process without descriptors and report an ended process as lost.
        self.order(SpawnerCall::Forget { id: id.clone() }).await?;
        for part in [StreamPart::Input, StreamPart::Output] {
            self.tell_init(&HoldRequest::Release { id: id.clone(), part }, Vec::new()).await?;
        }
        Ok(())
    }

    /// Ends a process that was never announced.
    async fn discard(&self, id: &ProcessId) -> Result<(), SpawnError> {
        self.order(SpawnerCall::Signal { id: id.clone(), signal: libc::SIGKILL }).await?;
        self.forget(id).await
    }
}

/// Assigns the descriptors of an answer.
fn sort(pid: i32, fds: Vec<OwnedFd>, stdin: bool, stderr: bool) -> Option<Spawned> {
    let mut fds = fds.into_iter();
    let stdout = fds.next()?;
    let stdin = if stdin { Some(fds.next()?) } else { None };
    let stderr = if stderr { Some(fds.next()?) } else { None };
    Some(Spawned { pid, stdin, stdout, stderr })
}
