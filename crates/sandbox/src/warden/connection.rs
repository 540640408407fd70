//! The server's end of the socket: sends calls, matches answers to them, and keeps what the warden tells by itself.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::messages::{CallReply, DriverCall, ServerMessage, WardenCall, WardenMessage};
use super::places::WorkspacePlaces;
use super::service::ImageStates;
use super::socket::WardenSocket;
use crate::driver::{FoundSandbox, SandboxId};
use crate::host::packets::{self, SocketPacket};

/// Reports of progress that may wait for their caller; more are left out.
const PROGRESS_QUEUE: usize = 4;
/// Cancelled calls whose links may still be on their way. A link arrives within moments or never.
const MAX_CANCELLED: usize = 256;

/// An answer, with the descriptor that came with it.
pub(super) struct CallAnswer {
    pub(super) reply: CallReply,
    pub(super) fd: Option<OwnedFd>,
}

/// A call whose answer is awaited.
struct WaitingCall {
    answer: oneshot::Sender<CallAnswer>,
    progress: Option<mpsc::Sender<String>>,
    /// Parts of a list that have come.
    found: Vec<FoundSandbox>,
}

/// The connection. The warden ends when its last user is gone.
pub(super) struct WardenConnection {
    pub(super) socket: Arc<WardenSocket>,
    pub(super) places: WorkspacePlaces,
    next_number: AtomicU64,
    waiting: Mutex<HashMap<u64, WaitingCall>>,
    /// Links that came when nobody waited for them any more: a cancelled call must lose none.
    unclaimed: Mutex<UnclaimedLinks>,
    pub(super) closed: CancellationToken,
}

/// Links by driver and sandbox, and the cancelled calls whose links may still come.
#[derive(Default)]
struct UnclaimedLinks {
    links: HashMap<(usize, SandboxId), UnixStream>,
    cancelled: VecDeque<(u64, (usize, SandboxId))>,
}

impl UnclaimedLinks {
    fn expect(&mut self, number: u64, whose: (usize, SandboxId)) {
        if self.cancelled.len() >= MAX_CANCELLED {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back((number, whose));
    }

    /// Keeps the link of a cancelled call.
    fn keep(&mut self, number: u64, fd: OwnedFd) {
        let position = self.cancelled.iter().position(|(cancelled, _)| *cancelled == number);
        let whose = position.and_then(|position| self.cancelled.remove(position));
        if let (Some((_, whose)), Ok(link)) = (whose, UnixStream::from_std(fd.into())) {
            // An older link of the same sandbox is dead: keeper dials again only then.
            self.links.insert(whose, link);
        }
    }
}

impl WardenConnection {
    /// Listens to a warden that has opened its drivers. Must be called within a tokio runtime.
    pub(super) fn open(
        socket: WardenSocket,
        places: WorkspacePlaces,
        states: watch::Sender<ImageStates>,
    ) -> Arc<Self> {
        let socket = Arc::new(socket);
        let connection = Arc::new(Self {
            socket: Arc::clone(&socket),
            places,
            next_number: AtomicU64::new(1),
            waiting: Mutex::default(),
            unclaimed: Mutex::default(),
            closed: CancellationToken::new(),
        });
        tokio::spawn(listen(socket, Arc::downgrade(&connection), states));
        connection
    }

    /// Makes a call. Never returns once the warden is gone. Cancelling it cancels the call.
    pub(super) async fn call(self: &Arc<Self>, call: WardenCall) -> CallAnswer {
        self.begin(call, None).await.answer().await
    }

    /// Makes a call that reports its progress.
    pub(super) async fn call_telling(
        self: &Arc<Self>,
        call: WardenCall,
        report: &(dyn Fn(String) + Send + Sync),
    ) -> CallAnswer {
        let (sender, mut reports) = mpsc::channel(PROGRESS_QUEUE);
        let mut answer = std::pin::pin!(self.begin(call, Some(sender)).await.answer());
        loop {
            // Neither branch loses anything: the answer stays pinned, and a report stays in its queue.
            tokio::select! {
                answer = &mut answer => return answer,
                Some(text) = reports.recv() => report(text),
            }
        }
    }

    /// Takes a link that came for a cancelled call.
    pub(super) fn unclaimed(&self, driver: usize, id: &SandboxId) -> Option<UnixStream> {
        self.unclaimed.lock().links.remove(&(driver, id.clone()))
    }

    async fn begin(self: &Arc<Self>, call: WardenCall, progress: Option<mpsc::Sender<String>>) -> OpenCall {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let link_of = match &call {
            WardenCall::Driver { driver, call: DriverCall::NextLink { id } } => Some((*driver, id.clone())),
            _ => None,
        };
        let (answer, receiver) = oneshot::channel();
        self.waiting.lock().insert(number, WaitingCall { answer, progress, found: Vec::new() });
        let open =
            OpenCall { connection: Arc::clone(self), number, link_of, answer: receiver, answered: false };
        if let Err(error) = self.socket.send(&ServerMessage::Call { number, call }, None).await {
            // The reader notices the end of the socket too.
            tracing::warn!(%error, "the privileged process can't be asked");
            self.closed.cancel();
        }
        open
    }

    fn cancel(self: &Arc<Self>, number: u64) {
        let message = ServerMessage::Cancel { number };
        let Err(error) = self.socket.try_send(&message) else { return };
        // The socket is full now. Left open, the call would wait in the warden for as long as its sandbox lives.
        if error.kind() == io::ErrorKind::WouldBlock
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let connection = Arc::clone(self);
            runtime.spawn(async move { drop(connection.socket.send(&message, None).await) });
        }
    }

    /// Takes in a message of the warden.
    fn take(&self, packet: SocketPacket, states: &watch::Sender<ImageStates>) -> io::Result<()> {
        match packets::decode(&packet.bytes)? {
            WardenMessage::Opened { .. } | WardenMessage::Refused { .. } => {
                return Err(io::ErrorKind::InvalidData.into());
            }
            WardenMessage::Images { states: told } => {
                states.send_replace(told.into_iter().collect());
            }
            WardenMessage::Progress { number, text } => {
                if let Some(progress) =
                    self.waiting.lock().get(&number).and_then(|call| call.progress.as_ref())
                {
                    drop(progress.try_send(text));
                }
            }
            WardenMessage::Reply { number, reply: CallReply::Sandboxes { found, more: true } } => {
                if let Some(call) = self.waiting.lock().get_mut(&number) {
                    call.found.extend(found);
                }
            }
            WardenMessage::Reply { number, reply } => {
                self.answered(number, reply, packet.fds.into_iter().next())
            }
        }
        Ok(())
    }

    fn answered(&self, number: u64, reply: CallReply, fd: Option<OwnedFd>) {
        let waiting = self.waiting.lock().remove(&number);
        let Some(WaitingCall { answer, mut found, .. }) = waiting else { return self.keep(number, fd) };
        let reply = match reply {
            CallReply::Sandboxes { found: last, more } => {
                found.extend(last);
                CallReply::Sandboxes { found, more }
            }
            reply => reply,
        };
        if let Err(unheard) = answer.send(CallAnswer { reply, fd }) {
            self.keep(number, unheard.fd);
        }
    }

    /// Keeps a link whose caller went away.
    fn keep(&self, number: u64, fd: Option<OwnedFd>) {
        if let Some(fd) = fd {
            self.unclaimed.lock().keep(number, fd);
        }
    }
}

impl Drop for WardenConnection {
    fn drop(&mut self) {
        // Ends the reader too. A warden that is gone has no socket any more.
        drop(self.socket.shut_down());
    }
}

/// Reads messages until the warden is gone, or nobody uses the connection any more.
async fn listen(
    socket: Arc<WardenSocket>,
    connection: Weak<WardenConnection>,
    states: watch::Sender<ImageStates>,
) {
    loop {
        let received = socket.receive().await;
        let Some(connection) = connection.upgrade() else { return };
        let taken = match received {
            Ok(packet) if packet.is_end() => return connection.closed.cancel(),
            Ok(packet) => connection.take(packet, &states),
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            tracing::error!(%error, "the privileged process sent something unreadable");
            return connection.closed.cancel();
        }
    }
}

/// A call that was sent. Dropping it cancels the call.
struct OpenCall {
    connection: Arc<WardenConnection>,
    number: u64,
    /// Driver and sandbox of a call for a link.
    link_of: Option<(usize, SandboxId)>,
    answer: oneshot::Receiver<CallAnswer>,
    answered: bool,
}

impl OpenCall {
    async fn answer(mut self) -> CallAnswer {
        match (&mut self.answer).await {
            Ok(answer) => {
                self.answered = true;
                answer
            }
            // The connection is never dropped while a call is open, and neither is the sender.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        if let Some(whose) = self.link_of.take() {
            self.connection.unclaimed.lock().expect(self.number, whose);
        }
        // An answer that came in this moment is kept if it is a link.
        if self.connection.waiting.lock().remove(&self.number).is_some() {
            self.connection.cancel(self.number);
        } else if let Ok(answer) = self.answer.try_recv() {
            self.connection.keep(self.number, answer.fd);
        }
    }
}
