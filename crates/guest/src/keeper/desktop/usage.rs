//! When the desktop was last used.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// When the desktop was last used.
#[derive(Debug)]
pub(super) struct LastUse(Mutex<Instant>);

impl Default for LastUse {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl LastUse {
    /// Restarts the time after which an unused desktop is stopped.
    pub(super) fn touch(&self) {
        *self.0.lock() = Instant::now();
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.0.lock().elapsed()
    }
}
