//! Who controls the desktop: a person, or else the agent. Held by a stream and given back with it; nobody can take it from
//! its holder. A file that keeper alone can write tells the job's own process.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// Where a job of kind `gui` sees who has control.
pub(in crate::keeper) const NOTICE: &str = "/run/job/control";
/// A name is a few words.
const WHO_CHARACTERS: usize = 120;

/// The lock.
#[derive(Debug, Clone)]
pub(super) struct Control(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    holder: Mutex<Option<String>>,
    changed: watch::Sender<()>,
    notice: PathBuf,
}

/// Control; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Held(Control);

impl Control {
    /// Held by nobody.
    pub(super) fn new(notice: PathBuf) -> Self {
        // One that a killed keeper left would stop the job for ever.
        let _ = fs::remove_file(&notice);
        Self(Arc::new(Shared { holder: Mutex::default(), changed: watch::Sender::new(()), notice }))
    }

    /// Takes control, or says who has it.
    pub(super) fn take(&self, who: &str) -> Result<Held, String> {
        let who: String = who.chars().filter(|letter| !letter.is_control()).take(WHO_CHARACTERS).collect();
        let mut holder = self.holder();
        if let Some(other) = holder.as_ref() {
            return Err(other.clone());
        }
        // Without the file a job of kind `gui` goes on; the person still sees what it does.
        let _ = fs::write(&self.0.notice, &who);
        *holder = Some(who);
        drop(holder);
        self.0.changed.send_replace(());
        Ok(Held(self.clone()))
    }

    /// Returns when nobody has control; after `patience` says who still has.
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
        self.0.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let control = &self.0;
        let mut holder = control.holder();
        let _ = fs::remove_file(&control.0.notice);
        *holder = None;
        drop(holder);
        control.0.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn control_is_held_by_one_and_given_back_with_its_stream() {
        let folder = tempfile::tempdir().unwrap();
        let notice = folder.path().join("control");
        fs::write(&notice, "left by a killed keeper").unwrap();
        let control = Control::new(notice.clone());
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
