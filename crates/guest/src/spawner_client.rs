//! Keeper's side of the spawner's and init's sockets: the [`ProcessHost`] of a real sandbox.
//!
//! One task reads the spawner's socket and hands answers to whoever asked and exits to `next_exit`. Each started process's
//! descriptors are given to init before anybody learns of the process, so keeper may die at any point: what the next keeper
//! finds at the spawner without descriptors at init was never announced, and is killed.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use sandyard_protocol::ProcessId;
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot};
use tokio::task::JoinHandle;

use crate::init::messages::{HoldReply, HoldRequest, Part};
use crate::packets::{self, Packet, Received};
use crate::process_host::{Command, OWN_PROGRAM, ProcessHost, RawExit, SpawnError, Spawned, Survivor};
use crate::spawner::messages::{Call, Entry, Outcome, Question, Request, Told};
use crate::sys;

/// The processes of a sandbox, through its spawner.
#[derive(Debug)]
pub struct SpawnerClient {
    shared: Arc<Shared>,
    survivors: Mutex<Vec<Survivor>>,
    reader: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    spawner: AsyncFd<OwnedFd>,
    init: AsyncMutex<AsyncFd<OwnedFd>>,
    session: u64,
    asked: AtomicU64,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    exits: VecDeque<RawExit>,
    /// Exits before the roll are in the roll.
    roll_seen: bool,
    gone: bool,
}

#[derive(Debug)]
struct Answer {
    outcome: Outcome,
    fds: Vec<OwnedFd>,
}

/// What keeper notes for its successor, in the memory file that init holds with the descriptors.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    command: Command,
    pid: i32,
    stderr: bool,
}

/// Descriptors held by init.
type Parts = HashMap<(ProcessId, Part), Vec<OwnedFd>>;

impl SpawnerClient {
    /// Takes both sockets, finds out what an earlier keeper left, and starts reading. Must run in a tokio runtime.
    pub async fn connect(spawner: OwnedFd, init: OwnedFd, session: u64) -> Result<Self, SpawnError> {
        let register = |fd: OwnedFd| {
            rustix::io::ioctl_fionbio(&fd, true).map_err(io::Error::from)?;
            sys::watch(fd)
        };
        let shared = Arc::new(Shared {
            spawner: register(spawner).map_err(gone)?,
            init: AsyncMutex::new(register(init).map_err(gone)?),
            session,
            asked: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Notify::new(),
        });
        let reader = tokio::spawn(read(Arc::clone(&shared)));
        let client = Self { shared, survivors: Mutex::default(), reader };
        let survivors = client.shared.take_over().await?;
        *client.survivors.lock().unwrap_or_else(PoisonError::into_inner) = survivors;
        Ok(client)
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
        let (sender, receiver) = oneshot::channel();
        let (shared, id) = (Arc::clone(&self.shared), command.id.clone());
        // A task of its own, so that a caller who goes away leaves no process that nobody knows.
        tokio::spawn(async move {
            if let Err(Ok(_)) = sender.send(shared.spawn(command).await) {
                drop(shared.discard(&id).await);
            }
        });
        receiver.await.map_err(|_| SpawnError::Gone)?
    }

    async fn signal(&self, id: &ProcessId, signal: i32) -> Result<(), SpawnError> {
        self.shared.order(Call::Signal { id: id.clone(), signal }).await
    }

    async fn close_stdin(&self, id: &ProcessId) -> Result<(), SpawnError> {
        self.shared.tell_init(&HoldRequest::Release { id: id.clone(), part: Part::Input }, Vec::new()).await
    }

    async fn kill_everything(&self) -> Result<(), SpawnError> {
        self.shared.order(Call::KillEverything).await
    }

    async fn next_exit(&self) -> Result<RawExit, SpawnError> {
        loop {
            let changed = self.shared.changed.notified();
            {
                let mut state = self.shared.state();
                if let Some(exit) = state.exits.pop_front() {
                    return Ok(exit);
                }
                if state.gone {
                    return Err(SpawnError::Gone);
                }
            }
            changed.await;
        }
    }

    async fn forget(&self, id: &ProcessId) -> Result<(), SpawnError> {
        self.shared.forget(id).await
    }

    async fn survivors(&self) -> Result<Vec<Survivor>, SpawnError> {
        Ok(std::mem::take(&mut *self.survivors.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn spawn(&self, command: Command) -> Result<Spawned, SpawnError> {
        let Answer { outcome, fds } = self.ask(Call::Spawn(command.clone())).await?;
        let Outcome::Spawned { pid, stdin, stderr } = outcome else { return Err(refused(outcome)) };
        let spawned = sort(pid, fds, stdin, stderr).ok_or(SpawnError::Gone)?;
        // A worker of keeper's own must see that its keeper is gone, and is of no use to the next one.
        if command.argv.first().is_none_or(|program| program != OWN_PROGRAM) {
            self.hold(Note { command, pid, stderr }, &spawned).await?;
        }
        Ok(spawned)
    }

    /// Asks for something that is answered by `Done`.
    async fn order(&self, call: Call) -> Result<(), SpawnError> {
        match self.ask(call).await?.outcome {
            Outcome::Done => Ok(()),
            outcome => Err(refused(outcome)),
        }
    }

    async fn ask(&self, call: Call) -> Result<Answer, SpawnError> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let request = Request { question: Question { session: self.session, number }, call };
        let packet = Packet::new(&request, Vec::new()).map_err(gone)?;
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state();
            if state.gone {
                return Err(SpawnError::Gone);
            }
            state.waiting.insert(number, sender);
        }
        send(&self.spawner, &packet).await?;
        receiver.await.map_err(|_| SpawnError::Gone)
    }

    async fn forget(&self, id: &ProcessId) -> Result<(), SpawnError> {
        self.order(Call::Forget { id: id.clone() }).await?;
        for part in [Part::Input, Part::Output] {
            self.tell_init(&HoldRequest::Release { id: id.clone(), part }, Vec::new()).await?;
        }
        Ok(())
    }

    async fn tell_init(&self, request: &HoldRequest, fds: Vec<OwnedFd>) -> Result<(), SpawnError> {
        let packet = Packet::new(request, fds).map_err(gone)?;
        send(&*self.init.lock().await, &packet).await
    }

    /// Ends a process that nobody was told of.
    async fn discard(&self, id: &ProcessId) -> Result<(), SpawnError> {
        self.order(Call::Signal { id: id.clone(), signal: libc::SIGKILL }).await?;
        self.forget(id).await
    }

    /// Input first: a process without the note in its output's part counts as never announced.
    async fn hold(&self, note: Note, spawned: &Spawned) -> Result<(), SpawnError> {
        let id = &note.command.id;
        let copy = |fd: &OwnedFd| fd.try_clone().map_err(gone);
        if let Some(stdin) = &spawned.stdin {
            self.tell_init(&HoldRequest::Hold { id: id.clone(), part: Part::Input }, vec![copy(stdin)?])
                .await?;
        }
        let text = serde_json::to_vec(&note).map_err(|error| gone(error.into()))?;
        let mut output = vec![packets::memory_file(&text).map_err(gone)?, copy(&spawned.stdout)?];
        if let Some(stderr) = &spawned.stderr {
            output.push(copy(stderr)?);
        }
        self.tell_init(&HoldRequest::Hold { id: id.clone(), part: Part::Output }, output).await
    }

    /// Joins what the spawner follows with what init holds, and drops what only one of them has.
    async fn take_over(&self) -> Result<Vec<Survivor>, SpawnError> {
        let Outcome::Roll(roll) = self.ask(Call::Roll).await?.outcome else { return Err(SpawnError::Gone) };
        let mut held = self.collect_held().await?;
        let mut survivors = Vec::new();
        for Entry { id, exit, .. } in roll {
            match survivor(&id, &mut held, exit) {
                Some(survivor) => survivors.push(survivor),
                None => self.discard(&id).await?,
            }
        }
        for (id, _) in held.keys() {
            self.forget(id).await?;
        }
        Ok(survivors)
    }

    async fn collect_held(&self) -> Result<Parts, SpawnError> {
        let init = self.init.lock().await;
        let mut held = Parts::new();
        for index in 0.. {
            send(&init, &Packet::new(&HoldRequest::Show { index }, Vec::new()).map_err(gone)?).await?;
            let Received { message, fds } = receive(&init).await?.ok_or(SpawnError::Gone)?;
            match message {
                HoldReply::Held { id, part } => held.insert((id, part), fds),
                HoldReply::End => break,
            };
        }
        Ok(held)
    }

    fn take(&self, received: Received<Told>) {
        let mut state = self.state();
        match received.message {
            Told::Answer { question, outcome } if question.session == self.session => {
                state.roll_seen |= matches!(outcome, Outcome::Roll(_));
                if let Some(sender) = state.waiting.remove(&question.number) {
                    drop(sender.send(Answer { outcome, fds: received.fds }));
                }
            }
            Told::Exit(exit) if state.roll_seen => {
                state.exits.push_back(exit);
                self.changed.notify_waiters();
            }
            Told::Answer { .. } | Told::Exit(_) => {}
        }
    }
}

/// Reads the spawner's socket until it or all users are gone.
async fn read(shared: Arc<Shared>) {
    while let Ok(Some(received)) = receive(&shared.spawner).await {
        shared.take(received);
    }
    let mut state = shared.state();
    state.gone = true;
    state.waiting.clear();
    shared.changed.notify_waiters();
}

async fn send(socket: &AsyncFd<OwnedFd>, packet: &Packet) -> Result<(), SpawnError> {
    loop {
        let mut guard = socket.writable().await.map_err(gone)?;
        match guard.try_io(|socket| packet.send(socket.get_ref().as_fd())) {
            Ok(result) => return result.map_err(gone),
            Err(_would_block) => {}
        }
    }
}

async fn receive<T: serde::de::DeserializeOwned>(
    socket: &AsyncFd<OwnedFd>,
) -> Result<Option<Received<T>>, SpawnError> {
    loop {
        let mut guard = socket.readable().await.map_err(gone)?;
        match guard.try_io(|socket| packets::receive(socket.get_ref().as_fd())) {
            Ok(result) => return result.map_err(gone),
            Err(_would_block) => {}
        }
    }
}

/// Puts the descriptors of an answer where they belong.
fn sort(pid: i32, fds: Vec<OwnedFd>, stdin: bool, stderr: bool) -> Option<Spawned> {
    let mut fds = fds.into_iter();
    let stdout = fds.next()?;
    let stdin = if stdin { Some(fds.next()?) } else { None };
    let stderr = if stderr { Some(fds.next()?) } else { None };
    Some(Spawned { pid, stdin, stdout, stderr })
}

/// Takes what is held of a process, by its predecessor's note; `None` if it can't be used.
fn survivor(id: &ProcessId, held: &mut Parts, exit: Option<RawExit>) -> Option<Survivor> {
    let input = held.remove(&(id.clone(), Part::Input)).unwrap_or_default();
    let mut output = held.remove(&(id.clone(), Part::Output)).unwrap_or_default().into_iter();
    let text = packets::read_memory_file(&File::from(output.next()?)).ok()?;
    let note: Note = serde_json::from_slice(&text).ok()?;
    let (stdout, stderr) = (output.next()?, output.next());
    if stderr.is_some() != note.stderr {
        return None;
    }
    let spawned = Spawned { pid: note.pid, stdin: input.into_iter().next(), stdout, stderr };
    Some(Survivor { command: note.command, spawned, exit })
}

fn refused(outcome: Outcome) -> SpawnError {
    match outcome {
        Outcome::Refused { what, errno } => {
            SpawnError::Refused { what, source: io::Error::from_raw_os_error(errno) }
        }
        _ => SpawnError::Gone,
    }
}

/// A socket that fails is as good as gone, and the machine with it.
fn gone(_error: io::Error) -> SpawnError {
    SpawnError::Gone
}
