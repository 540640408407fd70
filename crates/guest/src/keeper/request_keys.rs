//! Idempotency keys: which process or execution the first request with a key started.
//!
//! A key is stored before its process exists and names it, so a keeper that is killed in between refuses the repeat instead of
//! running the command twice. It outlives the output of what it names: a repeat that comes too late is refused too. Bounded in
//! number and age; a key that was forgotten may be used anew.

use std::sync::Arc;

use parking_lot::Mutex;
use sandyard_protocol::{ExecutionId, GuestError, GuestErrorCode, ProcessId, RequestKey};
use serde::{Deserialize, Serialize};
use tokio::sync::MutexGuard;

use super::clock::{boot_ms, milliseconds};
use super::spool::{Spool, SpoolError};
use crate::limits::{KEY_LIFETIME, KEY_TEXT_BYTES, KEYS};

const DOCUMENT: &str = "keys.json";

/// What a keyed request started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeyTarget {
    /// A process.
    Process(ProcessId),
    /// A piece of code in a kernel.
    Execution(ExecutionId),
}

/// The answer to a claim of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyClaim {
    /// The key is new and names the target now.
    First,
    /// An earlier request with the same body started this.
    Repeat(KeyTarget),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct KnownKey {
    key: RequestKey,
    target: KeyTarget,
    /// Time of the claim, in milliseconds since boot.
    at_ms: u64,
}

/// All keys that keeper knows.
#[derive(Debug)]
pub(super) struct RequestKeys {
    spool: Arc<Spool>,
    /// Oldest first.
    known: Mutex<Vec<KnownKey>>,
    turn: tokio::sync::Mutex<()>,
}

impl RequestKeys {
    /// Opens the keys of the earlier keeper.
    pub(super) fn open(spool: Arc<Spool>) -> Result<Self, SpoolError> {
        let known = spool.load(DOCUMENT)?.unwrap_or_default();
        Ok(Self { spool, known: Mutex::new(known), turn: tokio::sync::Mutex::default() })
    }

    /// Waits for the turn of a keyed start. It is held from the claim until the target can be found: a repeat that comes in between
    /// would look for a process that does not exist yet.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Gives a key to a target that is about to be started, or returns the earlier one.
    pub(super) fn claim(&self, key: &RequestKey, target: KeyTarget) -> Result<KeyClaim, GuestError> {
        self.claim_at(boot_ms(), key, target)
    }

    fn claim_at(&self, now: u64, key: &RequestKey, target: KeyTarget) -> Result<KeyClaim, GuestError> {
        if key.key_sha256.len().max(key.body_sha256.len()) > KEY_TEXT_BYTES {
            return Err(GuestError::new(GuestErrorCode::BadRequest, "the idempotency key is too long"));
        }
        let mut known = self.known.lock();
        known.retain(|entry| now.saturating_sub(entry.at_ms) < milliseconds(KEY_LIFETIME));
        if let Some(entry) = known.iter().find(|entry| entry.key.key_sha256 == key.key_sha256) {
            let same = entry.key.body_sha256 == key.body_sha256;
            return if same { Ok(KeyClaim::Repeat(entry.target.clone())) } else { Err(other_request()) };
        }
        let excess = (known.len() + 1).saturating_sub(KEYS);
        known.drain(..excess);
        known.push(KnownKey { key: key.clone(), target, at_ms: now });
        let stored = self.spool.store(DOCUMENT, &*known);
        if let Err(error) = stored {
            // Not durable, so not promised: the request is refused and has started nothing.
            known.pop();
            return Err(GuestError::new(GuestErrorCode::Internal, error.to_string()));
        }
        Ok(KeyClaim::First)
    }

    /// Frees a key whose target could not be started.
    pub(super) fn release(&self, key: &RequestKey) {
        let mut known = self.known.lock();
        known.retain(|entry| entry.key.key_sha256 != key.key_sha256);
        // If this is not stored, the next keeper refuses repeats of the failed request: it starts nothing twice.
        let _ = self.spool.store(DOCUMENT, &*known);
    }
}

/// The key belongs to another request.
pub(super) fn other_request() -> GuestError {
    GuestError::new(GuestErrorCode::AlreadyExists, "this idempotency key was used for another request")
}

/// The first request with the key ran, and its result is gone.
pub(super) fn forgotten() -> GuestError {
    let text =
        "the first request with this idempotency key was carried out, and its result is no longer kept";
    GuestError::new(GuestErrorCode::AlreadyExists, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, body: &str) -> RequestKey {
        RequestKey { key_sha256: name.to_owned(), body_sha256: body.to_owned() }
    }

    fn process(name: &str) -> KeyTarget {
        KeyTarget::Process(ProcessId(name.to_owned()))
    }

    #[test]
    fn a_key_names_one_target_also_for_the_next_keeper() {
        let folder = tempfile::tempdir().unwrap();
        let open = || RequestKeys::open(Arc::new(Spool::open(folder.path().to_owned()).unwrap())).unwrap();
        let keys = open();
        assert_eq!(keys.claim(&key("k", "b"), process("p1-1")), Ok(KeyClaim::First));
        let keys = open();
        assert_eq!(keys.claim(&key("k", "b"), process("p2-1")), Ok(KeyClaim::Repeat(process("p1-1"))));
        let other = keys.claim(&key("k", "c"), process("p2-2")).unwrap_err();
        assert_eq!(other.code, GuestErrorCode::AlreadyExists);
        keys.release(&key("k", "b"));
        assert_eq!(open().claim(&key("k", "c"), process("p2-3")), Ok(KeyClaim::First));
    }

    #[test]
    fn keys_are_bounded_in_number_and_length() {
        let folder = tempfile::tempdir().unwrap();
        let keys = RequestKeys::open(Arc::new(Spool::open(folder.path().to_owned()).unwrap())).unwrap();
        for number in 0..=KEYS {
            assert_eq!(keys.claim(&key(&number.to_string(), "b"), process("p")), Ok(KeyClaim::First));
        }
        assert_eq!(keys.known.lock().len(), KEYS);
        assert_eq!(keys.claim(&key("1", "b"), process("q")), Ok(KeyClaim::Repeat(process("p"))));
        assert_eq!(keys.claim(&key("0", "b"), process("q")), Ok(KeyClaim::First), "the oldest is forgotten");
        let long = key(&"x".repeat(KEY_TEXT_BYTES + 1), "b");
        assert_eq!(keys.claim(&long, process("q")).unwrap_err().code, GuestErrorCode::BadRequest);
    }

    #[test]
    fn an_old_key_may_be_used_anew() {
        let folder = tempfile::tempdir().unwrap();
        let keys = RequestKeys::open(Arc::new(Spool::open(folder.path().to_owned()).unwrap())).unwrap();
        keys.claim_at(5, &key("k", "b"), process("p")).unwrap();
        let age = milliseconds(KEY_LIFETIME);
        assert!(keys.claim_at(4 + age, &key("k", "c"), process("q")).is_err());
        assert_eq!(keys.claim_at(5 + age, &key("k", "c"), process("q")), Ok(KeyClaim::First));
    }
}
