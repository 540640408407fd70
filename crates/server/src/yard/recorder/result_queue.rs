//! Results of calls on their way to the store: gathered for a moment, written together.
//!
//! The queue needs no bound of its own: each result belongs to a call that waited for a commit before it was made.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandyard_protocol::ErrorChain;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::AuditWriter;
use crate::audit::AuditEntry;
use crate::job::JobId;

/// Time for which results are gathered before they are written in one commit.
const GATHER_TIME: Duration = Duration::from_millis(200);

type PendingResults = Arc<Mutex<HashMap<JobId, Vec<AuditEntry>>>>;

/// The queue, and the task that empties it. Dropping the queue ends the task.
pub(super) struct ResultQueue {
    writer: AuditWriter,
    pending: PendingResults,
    wake: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

impl ResultQueue {
    pub(super) fn new(writer: AuditWriter) -> Self {
        let (pending, wake) = (PendingResults::default(), Arc::new(Notify::new()));
        let task = write_forever(writer.clone(), Arc::clone(&pending), Arc::clone(&wake));
        Self { writer, pending, wake, _task: AbortOnDropHandle::new(tokio::spawn(task)) }
    }

    pub(super) fn add(&self, job: &JobId, entry: AuditEntry) {
        let mut pending = self.pending.lock();
        pending.entry(job.clone()).or_default().push(entry);
        self.wake.notify_one();
    }

    /// Writes all results that are in the queue now.
    pub(super) async fn flush(&self) {
        write(&self.writer, &self.pending).await;
    }
}

async fn write_forever(writer: AuditWriter, pending: PendingResults, wake: Arc<Notify>) {
    loop {
        // A result that is added during the write wakes the next round: `Notify` keeps one permit.
        wake.notified().await;
        tokio::time::sleep(GATHER_TIME).await;
        write(&writer, &pending).await;
    }
}

/// Writes all results. A result that can't be written is lost; the audit then has a call without a result.
async fn write(writer: &AuditWriter, pending: &PendingResults) {
    // Taken out at once, so that the lock is not held across the commits.
    let taken = std::mem::take(&mut *pending.lock());
    for (job, entries) in taken {
        if let Err(error) = writer.write(&job, entries).await {
            tracing::warn!(%job, error = %ErrorChain(&error), "results are missing in the audit");
        }
    }
}
