//! One lock for each sandbox: a start and a stop of the same one never run at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::SandboxId;

/// Locks by sandbox, made when first asked for.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<SandboxId, Arc<tokio::sync::Mutex<()>>>>);

impl Locks {
    /// The lock of a sandbox.
    pub(crate) fn of(&self, id: &SandboxId) -> Arc<tokio::sync::Mutex<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(id.clone()).or_default().clone()
    }

    /// Forgets the lock of a sandbox that is gone, unless somebody else waits for it.
    pub(crate) fn forget(&self, id: &SandboxId) {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One is ours, one the caller's who holds it.
        if locks.get(id).is_some_and(|lock| Arc::strong_count(lock) <= 2) {
            locks.remove(id);
        }
    }
}
