//! Hands the exit of each process to the task that waits for it.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::ProcessId;
use tokio::sync::watch;

use crate::process_host::RawExit;

/// The tasks that wait for an exit. An entry is made before its process is started, so that no exit comes too early.
#[derive(Debug, Default)]
pub(super) struct Exits(Mutex<BTreeMap<ProcessId, watch::Sender<Option<RawExit>>>>);

impl Exits {
    /// Keeps the exit of this process for the caller from now on.
    pub(super) fn expect(&self, id: &ProcessId) -> watch::Receiver<Option<RawExit>> {
        let (sender, receiver) = watch::channel(None);
        self.waiting().insert(id.clone(), sender);
        receiver
    }

    /// Removes the entry of a process whose exit nobody waits for any more.
    pub(super) fn unexpect(&self, id: &ProcessId) {
        self.waiting().remove(id);
    }

    /// Hands over an exit; false if nobody waits for it.
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
        self.0.lock()
    }
}

/// Waits for the exit of an expected process. Waits for ever if the process is no longer expected.
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
