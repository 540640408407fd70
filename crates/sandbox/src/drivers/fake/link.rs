//! Links of a fake machine: a rendezvous between keeper's dial and the server's wait, with a pump that can be cut.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sandyard_guest::keeper::Dial;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// As much as a Unix socket holds.
const BUFFER: usize = 64 * 1024;

/// Where keeper and server meet.
#[derive(Debug, Clone)]
pub(super) struct Links {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<VecDeque<oneshot::Sender<DuplexStream>>>,
    arrived: Notify,
    pump: Mutex<Option<JoinHandle<()>>>,
    /// Bytes after which each link breaks.
    bytes: Option<u64>,
}

impl Links {
    pub(super) fn new(bytes: Option<u64>) -> Self {
        let shared =
            Shared { waiting: Mutex::default(), arrived: Notify::new(), pump: Mutex::default(), bytes };
        Self { shared: Arc::new(shared) }
    }

    /// The server's side: the next time keeper dials.
    pub(super) async fn next(&self) -> DuplexStream {
        loop {
            let (sender, receiver) = oneshot::channel();
            self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(sender);
            self.shared.arrived.notify_waiters();
            if let Ok(stream) = receiver.await {
                return stream;
            }
        }
    }

    /// Breaks the present link.
    pub(super) fn cut(&self) {
        if let Some(pump) = self.shared.pump.lock().unwrap_or_else(PoisonError::into_inner).take() {
            pump.abort();
        }
    }

    async fn somebody_waits(&self) {
        loop {
            let arrived = self.shared.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            {
                let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.retain(|sender| !sender.is_closed());
                if !waiting.is_empty() {
                    return;
                }
            }
            arrived.await;
        }
    }
}

#[async_trait]
impl Dial for Links {
    type Stream = DuplexStream;

    async fn dial(&mut self) -> io::Result<DuplexStream> {
        loop {
            self.somebody_waits().await;
            let waiter = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let (guest, guest_far) = tokio::io::duplex(BUFFER);
            let (host, host_far) = tokio::io::duplex(BUFFER);
            if waiter.is_some_and(|waiter| waiter.send(host).is_ok()) {
                let pump = tokio::spawn(pump(guest_far, host_far, self.shared.bytes));
                *self.shared.pump.lock().unwrap_or_else(PoisonError::into_inner) = Some(pump);
                return Ok(guest);
            }
        }
    }

    /// A server that waits while a link is up has taken over.
    async fn replaced(&mut self) {
        self.somebody_waits().await;
    }
}

/// Carries bytes both ways until an end is gone or the budget is used up.
async fn pump(guest: DuplexStream, host: DuplexStream, bytes: Option<u64>) {
    let (guest_read, guest_write) = tokio::io::split(guest);
    let (host_read, host_write) = tokio::io::split(host);
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
    let mut buffer = vec![0; BUFFER];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
        match from.read(&mut buffer[..most]).await {
            Ok(count) if count > 0 && to.write_all(&buffer[..count]).await.is_ok() => left -= count as u64,
            _ => return,
        }
    }
}
