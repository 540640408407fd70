//! Where fake machines on another host find the server: the door of the server that opened a driver last.

use std::sync::{Mutex, PoisonError};

use sandyard_sandbox::driver::InboundLinks;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The address of the present server.
#[derive(Debug, Default)]
pub(super) struct FakeDoor {
    links: Mutex<Option<InboundLinks>>,
    changed: Notify,
}

impl FakeDoor {
    /// Machines dial this server from now on.
    pub(super) fn set(&self, links: InboundLinks) {
        *self.links.lock().unwrap_or_else(PoisonError::into_inner) = Some(links);
        self.changed.notify_waiters();
    }

    /// Returns the door of the present server, once there is one.
    pub(super) async fn links(&self) -> InboundLinks {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that a server in between is not missed.
            changed.as_mut().enable();
            if let Some(links) = self.links.lock().unwrap_or_else(PoisonError::into_inner).clone() {
                return links;
            }
            changed.await;
        }
    }

    /// Resolves when another server has opened a driver. The door of a dead server would keep a machine waiting: no connection
    /// breaks here as one over a network does.
    pub(super) fn replaced(&self) -> Notified<'_> {
        self.changed.notified()
    }
}
