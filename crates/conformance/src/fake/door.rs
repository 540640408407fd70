//! The door by which fake machines on another host find the server: that of the server that opened a driver
//! last.

use parking_lot::Mutex;
use sandyard_sandbox::driver::InboundLinks;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The address of the current server.
#[derive(Debug, Default)]
pub(super) struct FakeDoor {
    links: Mutex<Option<InboundLinks>>,
    changed: Notify,
}

impl FakeDoor {
    /// Makes machines dial this server from now on.
    pub(super) fn set(&self, links: InboundLinks) {
        *self.links.lock() = Some(links);
        self.changed.notify_waiters();
    }

    /// Returns the door of the current server. Waits until there is one.
    pub(super) async fn links(&self) -> InboundLinks {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that a server set in between is not missed.
            changed.as_mut().enable();
            if let Some(links) = self.links.lock().clone() {
                return links;
            }
            changed.await;
        }
    }

    /// Resolves when another server has opened a driver. A machine would wait at the door of a dead server
    /// without end: unlike over a network, no connection breaks.
    pub(super) fn replaced(&self) -> Notified<'_> {
        self.changed.notified()
    }
}
