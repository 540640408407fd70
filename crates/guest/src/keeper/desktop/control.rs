//! The lock on the desktop's input: a person holds it, or else the agent acts. A stream holds the lock until it ends; nobody can
//! take it away. A file that only keeper can write shows the holder to the job's own process.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::{GuestError, GuestErrorCode};
use tokio::sync::watch;

/// Path of the file that shows a job of kind `gui` who has control.
pub(super) const NOTICE: &str = "/run/job/control";
/// Longest name of a holder.
const MAX_NAME_CHARACTERS: usize = 120;

/// The lock on the desktop's input.
#[derive(Debug, Clone)]
pub(super) struct ControlLock(Arc<ControlState>);

#[derive(Debug)]
struct ControlState {
    holder: Mutex<Option<String>>,
    changed: watch::Sender<()>,
    notice: PathBuf,
}

/// Control; dropping it gives it back.
#[derive(Debug)]
pub(super) struct ControlGuard(ControlLock);

impl ControlLock {
    /// A lock that nobody holds.
    pub(super) fn new(notice: PathBuf) -> Self {
        // A notice that a killed keeper left would stop the job for ever.
        let _ = fs::remove_file(&notice);
        Self(Arc::new(ControlState { holder: Mutex::default(), changed: watch::Sender::new(()), notice }))
    }

    /// Takes control, or returns the name of the holder.
    pub(super) fn take(&self, who: &str) -> Result<ControlGuard, String> {
        // The name goes into messages and a file, so it is bounded and free of control characters.
        let who: String =
            who.chars().filter(|letter| !letter.is_control()).take(MAX_NAME_CHARACTERS).collect();
        let mut holder = self.holder();
        if let Some(other) = holder.as_ref() {
            return Err(other.clone());
        }
        // Without the file a job of kind `gui` goes on; the person still sees its actions.
        let _ = fs::write(&self.0.notice, &who);
        *holder = Some(who);
        drop(holder);
        self.0.changed.send_replace(());
        Ok(ControlGuard(self.clone()))
    }

    /// Returns when nobody has control. After `patience`, returns the name of the holder.
    pub(super) async fn free(&self, patience: Duration) -> Result<(), String> {
        let mut changes = self.0.changed.subscribe();
        let waiting = async {
            while self.holder().is_some() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(patience, waiting).await;
        match self.holder().clone() {
            None => Ok(()),
            Some(who) => Err(who),
        }
    }

    fn holder(&self) -> MutexGuard<'_, Option<String>> {
        self.0.holder.lock()
    }
}

impl Drop for ControlGuard {
    fn drop(&mut self) {
        let control = &self.0;
        let mut holder = control.holder();
        // Under the lock: the notice of the next holder must not be removed.
        let _ = fs::remove_file(&control.0.notice);
        *holder = None;
        drop(holder);
        control.0.changed.send_replace(());
    }
}

/// The refusal while somebody has control.
pub(super) fn controlled(who: &str) -> GuestError {
    GuestError::new(GuestErrorCode::Controlled, format!("{who} controls the desktop"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn control_is_held_by_one_and_given_back_with_its_stream() {
        let folder = tempfile::tempdir().unwrap();
        let notice = folder.path().join("control");
        fs::write(&notice, "left by a killed keeper").unwrap();
        let control = ControlLock::new(notice.clone());
        assert!(!notice.exists());
        assert_eq!(control.free(Duration::ZERO).await, Ok(()));
        let held = control.take("Ann\n").unwrap();
        assert_eq!(fs::read_to_string(&notice).unwrap(), "Ann");
        assert_eq!(control.take("Bob").unwrap_err(), "Ann");
        assert_eq!(control.free(Duration::from_millis(10)).await, Err("Ann".into()));
        let waiting = control.clone();
        let waiter = tokio::spawn(async move { waiting.free(Duration::from_secs(60)).await });
        tokio::task::yield_now().await;
        drop(held);
        assert_eq!(waiter.await.unwrap(), Ok(()));
        assert!(!notice.exists());
        assert!(control.take("Bob").is_ok());
    }
}
