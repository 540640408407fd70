//! Links that arrive at the server's own door, from machines that no local socket leads to.
//!
//! The HTTP layer accepts a connection, reads the sandbox's id and calls [`InboundLinks::deliver`]; a driver of remote machines
//! names the ids it expects and takes the streams in `next_link`. Nothing here authenticates the peer: the hello of the link
//! does, so a stream is untrusted bytes until then. Streams that nobody takes are bounded in number and in time.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use super::errors::LinkError;
use super::link_stream::BoxedDuplex;
use super::sandbox::SandboxId;

/// Streams that may wait for one sandbox. A keeper dials one at a time; more allow for a dead one that TCP has not noticed yet.
const MAX_WAITING_LINKS: usize = 4;
/// Longest time that a stream waits for its driver. A server that starts up adopts its sandboxes within this
/// time.
const TAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Reason why a stream was not handed over. The caller closes the connection; a keeper dials again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliverLinkError {
    /// No driver expects a link of that sandbox.
    #[error("no link of sandbox {0} is expected")]
    NotExpected(SandboxId),
    /// As many streams as allowed wait for that sandbox already.
    #[error("too many links of sandbox {0} wait")]
    TooMany(SandboxId),
    /// Nobody took the stream in time.
    #[error("nobody took the link of sandbox {0}")]
    NotTaken(SandboxId),
}

/// A rendezvous between accepted connections and the drivers that wait for them. Clones share it.
#[derive(Clone, Default)]
pub struct InboundLinks {
    shared: Arc<Rendezvous>,
}

#[derive(Default)]
struct Rendezvous {
    state: Mutex<RendezvousState>,
    changed: Notify,
}

#[derive(Default)]
struct RendezvousState {
    expected: HashMap<SandboxId, VecDeque<OfferedLink>>,
    next_number: u64,
}

struct OfferedLink {
    number: u64,
    stream: BoxedDuplex,
    taken: oneshot::Sender<()>,
}

impl InboundLinks {
    /// Accepts links of a sandbox from now on. Called by its driver before the machine can dial, and again when a later server
    /// adopts the sandbox.
    pub fn expect(&self, id: &SandboxId) {
        self.shared.state().expected.entry(id.clone()).or_default();
    }

    /// Refuses links of a sandbox from now on, drops those that wait and fails pending calls of [`InboundLinks::next`].
    pub fn forget(&self, id: &SandboxId) {
        let dropped = self.shared.state().expected.remove(id);
        // Outside of the lock: dropping a stream may run code of its owner.
        drop(dropped);
        self.shared.changed.notify_waiters();
    }

    /// Hands a stream to the driver and returns once it was taken. Cancelling the call drops a stream that was not taken.
    pub async fn deliver(&self, id: &SandboxId, stream: BoxedDuplex) -> Result<(), DeliverLinkError> {
        let (number, taken) = self.shared.offer(id, stream)?;
        // Runs when this call is cancelled too, so that no stream stays behind whose connection is gone.
        let _withdrawal = Withdrawal { shared: &self.shared, id, number };
        match tokio::time::timeout(TAKE_TIMEOUT, taken).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(DeliverLinkError::NotExpected(id.clone())),
            Err(_) => Err(DeliverLinkError::NotTaken(id.clone())),
        }
    }

    /// Waits for the next stream of a sandbox, oldest first. Fails if the sandbox is not expected. Cancelling the call loses no
    /// stream: taking one and returning it is a single step.
    pub async fn next(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registered before `take`, so that an offer in between is not missed.
            changed.as_mut().enable();
            match self.shared.take(id) {
                TakeOutcome::Taken(stream) => return Ok(stream),
                TakeOutcome::NotExpected => return Err(LinkError::NotRunning(id.clone())),
                TakeOutcome::NoneYet => changed.await,
            }
        }
    }
}

impl fmt::Debug for InboundLinks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InboundLinks").finish_non_exhaustive()
    }
}

enum TakeOutcome {
    Taken(BoxedDuplex),
    NoneYet,
    NotExpected,
}

impl Rendezvous {
    fn state(&self) -> MutexGuard<'_, RendezvousState> {
        self.state.lock()
    }

    fn offer(
        &self,
        id: &SandboxId,
        stream: BoxedDuplex,
    ) -> Result<(u64, oneshot::Receiver<()>), DeliverLinkError> {
        let mut state = self.state();
        let number = state.next_number;
        let waiting = state.expected.get_mut(id).ok_or_else(|| DeliverLinkError::NotExpected(id.clone()))?;
        // The peer is not authenticated yet, so anybody could fill the server's memory with waiting streams.
        if waiting.len() >= MAX_WAITING_LINKS {
            return Err(DeliverLinkError::TooMany(id.clone()));
        }
        let (sender, receiver) = oneshot::channel();
        waiting.push_back(OfferedLink { number, stream, taken: sender });
        state.next_number += 1;
        // The lock is released before the waiters wake, since each takes it at once.
        drop(state);
        self.changed.notify_waiters();
        Ok((number, receiver))
    }

    fn take(&self, id: &SandboxId) -> TakeOutcome {
        let mut state = self.state();
        let Some(waiting) = state.expected.get_mut(id) else { return TakeOutcome::NotExpected };
        while let Some(offer) = waiting.pop_front() {
            // A deliverer that gave up between its timeout and its withdrawal no longer listens.
            if offer.taken.send(()).is_ok() {
                return TakeOutcome::Taken(offer.stream);
            }
        }
        TakeOutcome::NoneYet
    }
}

/// Takes an offered stream back.
struct Withdrawal<'a> {
    shared: &'a Rendezvous,
    id: &'a SandboxId,
    number: u64,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.shared.state().expected.get_mut(self.id) {
            waiting.retain(|offer| offer.number != self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    fn id() -> SandboxId {
        SandboxId::parse("far-1").unwrap()
    }

    fn stream() -> (BoxedDuplex, DuplexStream) {
        let (near, far) = tokio::io::duplex(64);
        (Box::new(near), far)
    }

    #[tokio::test]
    async fn a_delivered_stream_reaches_the_driver_that_waits() {
        let links = InboundLinks::default();
        links.expect(&id());
        let (near, mut far) = stream();
        let sandbox = id();
        let (taken, delivered) = tokio::join!(links.next(&sandbox), links.deliver(&sandbox, near));
        delivered.unwrap();
        far.write_all(b"hello").await.unwrap();
        let mut bytes = [0; 5];
        taken.unwrap().read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"hello");
    }

    #[tokio::test]
    async fn a_stream_of_an_unknown_sandbox_is_refused() {
        let links = InboundLinks::default();
        let refused = links.deliver(&id(), stream().0).await;
        assert_eq!(refused, Err(DeliverLinkError::NotExpected(id())));
        assert!(matches!(links.next(&id()).await, Err(LinkError::NotRunning(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_nobody_takes_is_dropped_after_a_while() {
        let links = InboundLinks::default();
        links.expect(&id());
        let (near, mut far) = stream();
        assert_eq!(links.deliver(&id(), near).await, Err(DeliverLinkError::NotTaken(id())));
        assert_eq!(far.read(&mut [0; 1]).await.unwrap(), 0);
        let next = tokio::time::timeout(TAKE_TIMEOUT, links.next(&id())).await;
        assert!(next.is_err(), "the dropped stream was taken");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_streams_are_bounded_and_a_cancelled_delivery_makes_room() {
        let links = InboundLinks::default();
        links.expect(&id());
        let waiting =
            |links: InboundLinks| tokio::spawn(async move { links.deliver(&id(), stream().0).await });
        let deliveries: Vec<_> = (0..MAX_WAITING_LINKS).map(|_| waiting(links.clone())).collect();
        tokio::task::yield_now().await;
        assert_eq!(links.deliver(&id(), stream().0).await, Err(DeliverLinkError::TooMany(id())));
        deliveries[0].abort();
        tokio::task::yield_now().await;
        assert_eq!(links.deliver(&id(), stream().0).await, Err(DeliverLinkError::NotTaken(id())));
    }

    #[tokio::test]
    async fn a_forgotten_sandbox_wakes_who_waits_for_it() {
        let links = InboundLinks::default();
        links.expect(&id());
        let waiter = tokio::spawn({
            let links = links.clone();
            async move { links.next(&id()).await.map(drop) }
        });
        let delivery = tokio::spawn({
            let links = links.clone();
            async move {
                let other = SandboxId::parse("far-2").unwrap();
                links.expect(&other);
                links.deliver(&other, stream().0).await
            }
        });
        tokio::task::yield_now().await;
        links.forget(&id());
        links.forget(&SandboxId::parse("far-2").unwrap());
        assert!(matches!(waiter.await.unwrap(), Err(LinkError::NotRunning(_))));
        assert!(matches!(delivery.await.unwrap(), Err(DeliverLinkError::NotExpected(_))));
    }
}
