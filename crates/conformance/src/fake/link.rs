//! Links of a fake machine, with a pump that can be cut. Keeper's dial meets the server's wait in memory. For
//! a machine that pretends to be remote it arrives at the server's door.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sandyard_guest::keeper::Dial;
use sandyard_sandbox::driver::SandboxId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::door::FakeDoor;

/// Size of a link's buffer, as much as a Unix socket holds.
const BUFFER_BYTES: usize = 64 * 1024;

/// Delay before keeper dials again after a door refused it.
const DIAL_DELAY: Duration = Duration::from_millis(20);

/// Meeting point of keeper and server.
#[derive(Debug, Clone)]
pub(super) struct FakeLinks {
    shared: Arc<SharedLinks>,
}

#[derive(Debug)]
struct SharedLinks {
    /// Id and door of a remote machine; `None` for a local one.
    remote: Option<(SandboxId, Arc<FakeDoor>)>,
    waiting: Mutex<VecDeque<oneshot::Sender<DuplexStream>>>,
    arrived: Notify,
    pump: Mutex<Option<JoinHandle<()>>>,
    /// Bytes after which each link breaks.
    bytes: Option<u64>,
}

impl FakeLinks {
    /// Links of a machine on the server's host. Each breaks after `bytes`.
    pub(super) fn local(bytes: Option<u64>) -> Self {
        Self::new(None, bytes)
    }

    /// Links of a machine on another host, which arrive at the server's door.
    pub(super) fn remote(id: &SandboxId, door: &Arc<FakeDoor>) -> Self {
        Self::new(Some((id.clone(), Arc::clone(door))), None)
    }

    fn new(remote: Option<(SandboxId, Arc<FakeDoor>)>, bytes: Option<u64>) -> Self {
        let shared = SharedLinks {
            remote,
            waiting: Mutex::default(),
            arrived: Notify::new(),
            pump: Mutex::default(),
            bytes,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Waits on the server's side for keeper's next dial.
    pub(super) async fn next(&self) -> DuplexStream {
        loop {
            let (sender, receiver) = oneshot::channel();
            self.shared.waiting.lock().push_back(sender);
            self.shared.arrived.notify_waiters();
            if let Ok(stream) = receiver.await {
                return stream;
            }
        }
    }

    pub(super) fn cut(&self) {
        if let Some(pump) = self.shared.pump.lock().take() {
            pump.abort();
        }
    }

    async fn somebody_waits(&self) {
        loop {
            let arrived = self.shared.arrived.notified();
            tokio::pin!(arrived);
            // Registered before the look, so that a server that comes in between is not missed.
            arrived.as_mut().enable();
            {
                let mut waiting = self.shared.waiting.lock();
                waiting.retain(|sender| !sender.is_closed());
                if !waiting.is_empty() {
                    return;
                }
            }
            arrived.await;
        }
    }
}

impl FakeLinks {
    async fn dial_door(&self, id: &SandboxId, door: &FakeDoor) -> DuplexStream {
        loop {
            let replaced = door.replaced();
            tokio::pin!(replaced);
            let links = door.links().await;
            let (guest, far) = tokio::io::duplex(BUFFER_BYTES);
            // A machine dials the newest server only: `replaced` ends the wait at an older one, which would
            // never take the link. Dropping `deliver` withdraws the stream, so nothing is left at the old
            // door.
            tokio::select! {
                delivered = links.deliver(id, Box::new(far)) => {
                    if delivered.is_ok() {
                        return guest;
                    }
                    tokio::time::sleep(DIAL_DELAY).await;
                }
                () = &mut replaced => {}
            }
        }
    }
}

#[async_trait]
impl Dial for FakeLinks {
    type Stream = DuplexStream;

    async fn dial(&mut self) -> io::Result<DuplexStream> {
        if let Some((id, door)) = &self.shared.remote {
            return Ok(self.dial_door(id, door).await);
        }
        loop {
            self.somebody_waits().await;
            let waiter = self.shared.waiting.lock().pop_front();
            let (guest, guest_far) = tokio::io::duplex(BUFFER_BYTES);
            let (host, host_far) = tokio::io::duplex(BUFFER_BYTES);
            if waiter.is_some_and(|waiter| waiter.send(host).is_ok()) {
                let pump = tokio::spawn(pump(guest_far, host_far, self.shared.bytes));
                *self.shared.pump.lock() = Some(pump);
                return Ok(guest);
            }
        }
    }

    /// Returns when another server has taken over: one that waits while a link is up.
    async fn replaced(&mut self) {
        match self.shared.remote {
            // A remote keeper learns of it by the end of its link.
            Some(_) => std::future::pending().await,
            None => self.somebody_waits().await,
        }
    }
}

/// Carries bytes both ways until an end is gone or the budget is used up.
async fn pump(guest: DuplexStream, host: DuplexStream, bytes: Option<u64>) {
    let (guest_read, guest_write) = tokio::io::split(guest);
    let (host_read, host_write) = tokio::io::split(host);
    // The link ends when either direction does. Dropping the other direction loses the bytes in its buffer,
    // as a broken connection would.
    tokio::select! {
        () = carry(guest_read, host_write, bytes) => {}
        () = carry(host_read, guest_write, None) => {}
    }
}

async fn carry<R, W>(mut from: ReadHalf<R>, mut to: WriteHalf<W>, budget: Option<u64>)
where
    R: AsyncRead,
    W: AsyncWrite,
{
    let mut left = budget.unwrap_or(u64::MAX);
    let mut buffer = vec![0; BUFFER_BYTES];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES);
        match from.read(&mut buffer[..most]).await {
            Ok(count) if count > 0 && to.write_all(&buffer[..count]).await.is_ok() => left -= count as u64,
            _ => return,
        }
    }
}
