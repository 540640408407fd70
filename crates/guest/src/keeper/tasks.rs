//! The owner of keeper's background tasks: when keeper stops, they stop.

use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinSet;

/// All tasks that outlive the stream that started them.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.set();
        // Ended tasks stay in a `JoinSet` until somebody takes them out.
        while set.try_join_next().is_some() {}
        set.spawn(task);
    }

    /// Aborts all tasks at their next await, as a kill would.
    pub(super) fn stop(&self) {
        self.set().abort_all();
    }

    fn set(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock()
    }
}
