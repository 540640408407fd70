//! Driver-specific image formats, made from an image's tree when a job first needs one. Jobs that need the same format wait for
//! the same task, which continues when they are cancelled.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::ErrorChain;
use sandyard_sandbox::driver::{Driver, ImageDigest};
use tokio::sync::watch;

use super::panics::catch_panic;

/// Progress of making a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FormatState {
    /// The format is being made. The text describes the progress for people.
    Making(String),
    /// The format exists, so sandboxes can start from it.
    Ready,
    /// Making the format failed, for this reason. The next job tries again.
    Failed(String),
}

/// The formats of one server, by driver and image.
#[derive(Default)]
pub(crate) struct ImageFormats {
    formats: Mutex<HashMap<(&'static str, ImageDigest), watch::Receiver<FormatState>>>,
}

impl ImageFormats {
    /// Returns the state of an image's format for a driver. Begins to make it if nobody has, or if that failed before.
    pub(crate) fn of(&self, driver: &Arc<dyn Driver>, image: &ImageDigest) -> watch::Receiver<FormatState> {
        let mut formats = self.formats();
        let key = (driver.name(), image.clone());
        if let Some(state) = formats.get(&key)
            && !matches!(*state.borrow(), FormatState::Failed(_))
        {
            return state.clone();
        }
        // Under the lock: two jobs that ask at once share one task.
        let state = make(Arc::clone(driver), image.clone());
        formats.insert(key, state.clone());
        state
    }

    /// Returns the progress of a format that is being made for a driver.
    pub(crate) fn making(&self, driver: &str) -> Option<String> {
        self.formats().iter().filter(|((name, _), _)| *name == driver).find_map(|(_, state)| {
            match &*state.borrow() {
                FormatState::Making(progress) if !progress.is_empty() => Some(progress.clone()),
                FormatState::Making(_) | FormatState::Ready | FormatState::Failed(_) => None,
            }
        })
    }

    /// Forgets the finished formats of a driver, because a start failed: somebody may have removed the files.
    pub(crate) fn forget(&self, driver: &str) {
        self.formats()
            .retain(|(name, _), state| *name != driver || matches!(*state.borrow(), FormatState::Making(_)));
    }

    fn formats(&self) -> MutexGuard<'_, HashMap<(&'static str, ImageDigest), watch::Receiver<FormatState>>> {
        self.formats.lock()
    }
}

fn make(driver: Arc<dyn Driver>, image: ImageDigest) -> watch::Receiver<FormatState> {
    let (sender, state) = watch::channel(FormatState::Making(String::new()));
    tokio::spawn(async move {
        let report = |progress: String| {
            sender.send_replace(FormatState::Making(progress));
        };
        // A panic must not leave the state at `Making`: every job of this driver would wait for ever.
        let made = catch_panic(driver.prepare_image(&image, &report)).await;
        sender.send_replace(match made {
            Ok(Ok(())) => FormatState::Ready,
            Ok(Err(error)) => FormatState::Failed(ErrorChain(&error).to_string()),
            Err(fault) => FormatState::Failed(fault),
        });
    });
    state
}
