//! The running loop of a yard.

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::ClaimedJob;

/// The loop of a yard, and the channel to it.
pub(super) struct YardTask {
    pub(super) claimed: mpsc::Sender<ClaimedJob>,
    pub(super) stop: CancellationToken,
    pub(super) task: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for YardTask {
    /// Without `stop` this is a crash: nothing is released, and the next server finds everything again.
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}
