//! The two sockets: questions to the spawner, its answers and exits, and messages to init.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot};

use crate::init::messages::{HoldReply, HoldRequest};
use crate::packets::{self, LocalPacket, ReceivedPacket};
use crate::process_host::{RawExit, SpawnError};
use crate::spawner::messages::{
    SpawnerCall, SpawnerMessage, SpawnerOutcome, SpawnerQuestion, SpawnerRequest,
};
use crate::sys;

/// The sockets and the state that the client, its reader and its tasks share.
#[derive(Debug)]
pub(super) struct SpawnerConnection {
    spawner: AsyncFd<OwnedFd>,
    init: AsyncMutex<AsyncFd<OwnedFd>>,
    session: u64,
    asked: AtomicU64,
    state: Mutex<ConnectionState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct ConnectionState {
    waiting: HashMap<u64, oneshot::Sender<SpawnerAnswer>>,
    exits: VecDeque<RawExit>,
    /// Exits before the roll are in the roll.
    roll_seen: bool,
    gone: bool,
}

/// The spawner's answer to one question.
#[derive(Debug)]
pub(super) struct SpawnerAnswer {
    pub(super) outcome: SpawnerOutcome,
    pub(super) fds: Vec<OwnedFd>,
}

impl SpawnerConnection {
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

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock()
    }

    /// Asks for something that is answered by `Done`.
    pub(super) async fn order(&self, call: SpawnerCall) -> Result<(), SpawnError> {
        match self.ask(call).await?.outcome {
            SpawnerOutcome::Done => Ok(()),
            outcome => Err(refused(outcome)),
        }
    }

    /// Asks the spawner and waits for its answer.
    pub(super) async fn ask(&self, call: SpawnerCall) -> Result<SpawnerAnswer, SpawnError> {
        self.ask_with(call, Vec::new()).await
    }

    /// Asks the spawner, sending descriptors along, and waits for its answer.
    pub(super) async fn ask_with(
        &self,
        call: SpawnerCall,
        fds: Vec<OwnedFd>,
    ) -> Result<SpawnerAnswer, SpawnError> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let request = SpawnerRequest { question: SpawnerQuestion { session: self.session, number }, call };
        let packet = LocalPacket::new(&request, fds).map_err(gone)?;
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state();
            if state.gone {
                return Err(SpawnError::Gone);
            }
            // Inserted before the question is sent, so that no answer comes too early. `gone` is checked under the same lock: `read`
            // clears `waiting` only once, and a question added later would wait for ever.
            state.waiting.insert(number, sender);
        }
        send(&self.spawner, &packet).await?;
        receiver.await.map_err(|_| SpawnError::Gone)
    }

    /// The next exit that was not in the roll.
    pub(super) async fn next_exit(&self) -> Result<RawExit, SpawnError> {
        loop {
            // Registered before the look at the state, so that a change between the look and the wait is not missed.
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

    /// Sends a message to init that it does not answer.
    pub(super) async fn tell_init(&self, request: &HoldRequest, fds: Vec<OwnedFd>) -> Result<(), SpawnError> {
        let packet = LocalPacket::new(request, fds).map_err(gone)?;
        send(&*self.init.lock().await, &packet).await
    }

    /// Asks init for one of the descriptors that it holds.
    pub(super) async fn ask_init(
        &self,
        request: &HoldRequest,
    ) -> Result<ReceivedPacket<HoldReply>, SpawnError> {
        let packet = LocalPacket::new(request, Vec::new()).map_err(gone)?;
        // Held from the question to its answer: init's answers carry no number, so only one question may be open.
        let init = self.init.lock().await;
        send(&init, &packet).await?;
        receive(&init).await?.ok_or(SpawnError::Gone)
    }

    fn take(&self, received: ReceivedPacket<SpawnerMessage>) {
        let mut state = self.state();
        match received.message {
            // The socket may still hold answers to the earlier keeper. They, and exits before the roll, are dropped.
            SpawnerMessage::Answer { question, outcome } if question.session == self.session => {
                state.roll_seen |= matches!(outcome, SpawnerOutcome::Roll(_));
                if let Some(sender) = state.waiting.remove(&question.number) {
                    drop(sender.send(SpawnerAnswer { outcome, fds: received.fds }));
                }
            }
            SpawnerMessage::Exit(exit) if state.roll_seen => {
                state.exits.push_back(exit);
                self.changed.notify_waiters();
            }
            SpawnerMessage::Answer { .. } | SpawnerMessage::Exit(_) => {}
        }
    }
}

/// Reads the spawner's socket until it or all users are gone.
pub(super) async fn read(shared: Arc<SpawnerConnection>) {
    while let Ok(Some(received)) = receive(&shared.spawner).await {
        shared.take(received);
    }
    let mut state = shared.state();
    state.gone = true;
    // Dropping the senders wakes every caller with `Gone`.
    state.waiting.clear();
    shared.changed.notify_waiters();
}

async fn send(socket: &AsyncFd<OwnedFd>, packet: &LocalPacket) -> Result<(), SpawnError> {
    loop {
        let mut guard = socket.writable().await.map_err(gone)?;
        match guard.try_io(|socket| packet.send(socket.get_ref().as_fd())) {
            Ok(result) => return result.map_err(gone),
            Err(_would_block) => {}
        }
    }
}

async fn receive<T: DeserializeOwned>(
    socket: &AsyncFd<OwnedFd>,
) -> Result<Option<ReceivedPacket<T>>, SpawnError> {
    loop {
        let mut guard = socket.readable().await.map_err(gone)?;
        match guard.try_io(|socket| packets::receive(socket.get_ref().as_fd())) {
            Ok(result) => return result.map_err(gone),
            Err(_would_block) => {}
        }
    }
}

/// The refusal in an answer. Any other answer means that the spawner can't be trusted any more.
pub(super) fn refused(outcome: SpawnerOutcome) -> SpawnError {
    match outcome {
        SpawnerOutcome::Refused { what, errno } => {
            SpawnError::Refused { what, source: io::Error::from_raw_os_error(errno) }
        }
        _ => SpawnError::Gone,
    }
}

/// A socket that fails is as good as gone, and the machine with it.
fn gone(_error: io::Error) -> SpawnError {
    SpawnError::Gone
}
