//! One lock for each sandbox: a start and a stop of the same sandbox never overlap.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedMutexGuard;

use crate::driver::SandboxId;

type ById = HashMap<SandboxId, Arc<tokio::sync::Mutex<()>>>;

/// Locks by sandbox, made on first use.
#[derive(Debug, Default)]
pub(crate) struct SandboxLocks(Arc<Mutex<ById>>);

/// The lock of a sandbox, held until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldSandboxLock {
    locks: Arc<Mutex<ById>>,
    id: SandboxId,
    guard: Option<OwnedMutexGuard<()>>,
}

impl SandboxLocks {
    /// Waits until no other call works on the sandbox.
    pub(crate) async fn hold(&self, id: &SandboxId) -> HeldSandboxLock {
        let lock = all(&self.0).entry(id.clone()).or_default().clone();
        // Cancelling this await leaves an unused entry at worst, which the next holder's drop removes.
        HeldSandboxLock { guard: Some(lock.lock_owned().await), locks: self.0.clone(), id: id.clone() }
    }
}

impl Drop for HeldSandboxLock {
    /// Releases the lock, and removes its entry if nobody waits for it.
    fn drop(&mut self) {
        // The map is locked before the guard goes: otherwise a new caller could take the entry between the
        // count and its removal.
        let mut locks = all(&self.locks);
        self.guard = None;
        if locks.get(&self.id).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.id);
        }
    }
}

fn all(locks: &Mutex<ById>) -> MutexGuard<'_, ById> {
    locks.lock()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_sandbox_is_one_callers_at_a_time_and_forgotten_by_the_last() {
        let (locks, id) = (SandboxLocks::default(), SandboxId::parse("one").unwrap());
        let first = locks.hold(&id).await;
        let mut second = std::pin::pin!(locks.hold(&id));
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut second).await.is_err());
        drop(first);
        drop(second.await);
        assert!(all(&locks.0).is_empty());
    }

    #[tokio::test]
    async fn whoever_waits_no_longer_leaves_the_lock_usable() {
        let (locks, id) = (SandboxLocks::default(), SandboxId::parse("one").unwrap());
        let first = locks.hold(&id).await;
        let waited = tokio::time::timeout(Duration::from_millis(20), locks.hold(&id)).await;
        assert!(waited.is_err());
        drop(first);
        drop(locks.hold(&id).await);
        assert!(all(&locks.0).is_empty());
    }
}
