//! Hands each process's end to whoever waits for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sandyard_protocol::ProcessId;
use tokio::sync::watch;

use crate::process_host::RawExit;

/// Who waits for what. An entry is made before its process is started, so that no end comes too early.
#[derive(Debug, Default)]
pub(super) struct Exits(Mutex<BTreeMap<ProcessId, watch::Sender<Option<RawExit>>>>);

impl Exits {
    /// From now on the end of this process is kept for the caller.
    pub(super) fn expect(&self, id: &ProcessId) -> watch::Receiver<Option<RawExit>> {
        let (sender, receiver) = watch::channel(None);
        self.waiting().insert(id.clone(), sender);
        receiver
    }

    /// Nobody waits for it any more.
    pub(super) fn unexpect(&self, id: &ProcessId) {
        self.waiting().remove(id);
    }

    /// Tells an end; false if nobody waits for it.
    pub(super) fn deliver(&self, exit: RawExit) -> bool {
        match self.waiting().get(&exit.id) {
            Some(waiting) => {
                waiting.send_replace(Some(exit));
                true
            }
            None => false,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<ProcessId, watch::Sender<Option<RawExit>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end itself.
pub(super) async fn ended(receiver: &mut watch::Receiver<Option<RawExit>>) -> RawExit {
    loop {
        if let Some(exit) = receiver.borrow_and_update().clone() {
            return exit;
        }
        if receiver.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
