//! The two sockets: questions to the spawner, its answers and exits, and what init is told.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot};

use crate::init::messages::{HoldReply, HoldRequest};
use crate::packets::{self, Packet, Received};
use crate::process_host::{RawExit, SpawnError};
use crate::spawner::messages::{Call, Outcome, Question, Request, Told};
use crate::sys;

/// What the client, its reader and its tasks share.
#[derive(Debug)]
pub(super) struct Shared {
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

/// The spawner's answer to one question.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    pub(super) fds: Vec<OwnedFd>,
}

impl Shared {
    pub(super) fn new(spawner: OwnedFd, init: OwnedFd, session: u64) -> Result<Self, SpawnError> {
        let register = |fd: OwnedFd| {
            rustix::io::ioctl_fionbio(&fd, true).map_err(io::Error::from)?;
            sys::watch(fd)
        };
        Ok(Self {
            spawner: register(spawner).map_err(gone)?,
            init: AsyncMutex::new(register(init).map_err(gone)?),
            session,
            asked: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for something that is answered by `Done`.
    pub(super) async fn order(&self, call: Call) -> Result<(), SpawnError> {
        match self.ask(call).await?.outcome {
            Outcome::Done => Ok(()),
            outcome => Err(refused(outcome)),
        }
    }

    /// Asks the spawner and waits for its answer.
    pub(super) async fn ask(&self, call: Call) -> Result<Answer, SpawnError> {
        self.ask_with(call, Vec::new()).await
    }

    /// Asks the spawner, sending descriptors along, and waits for its answer.
    pub(super) async fn ask_with(&self, call: Call, fds: Vec<OwnedFd>) -> Result<Answer, SpawnError> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let request = Request { question: Question { session: self.session, number }, call };
        let packet = Packet::new(&request, fds).map_err(gone)?;
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

    /// The next exit that was not in the roll.
    pub(super) async fn next_exit(&self) -> Result<RawExit, SpawnError> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
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

    /// Says something to init that it doesn't answer.
    pub(super) async fn tell_init(&self, request: &HoldRequest, fds: Vec<OwnedFd>) -> Result<(), SpawnError> {
        let packet = Packet::new(request, fds).map_err(gone)?;
        send(&*self.init.lock().await, &packet).await
    }

    /// Asks init, whose only question is what it holds.
    pub(super) async fn ask_init(&self, request: &HoldRequest) -> Result<Received<HoldReply>, SpawnError> {
        let packet = Packet::new(request, Vec::new()).map_err(gone)?;
        let init = self.init.lock().await;
        send(&init, &packet).await?;
        receive(&init).await?.ok_or(SpawnError::Gone)
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
pub(super) async fn read(shared: Arc<Shared>) {
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

async fn receive<T: DeserializeOwned>(socket: &AsyncFd<OwnedFd>) -> Result<Option<Received<T>>, SpawnError> {
    loop {
        let mut guard = socket.readable().await.map_err(gone)?;
        match guard.try_io(|socket| packets::receive(socket.get_ref().as_fd())) {
            Ok(result) => return result.map_err(gone),
            Err(_would_block) => {}
        }
    }
}

/// The refusal in an answer; any other answer makes no sense.
pub(super) fn refused(outcome: Outcome) -> SpawnError {
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
