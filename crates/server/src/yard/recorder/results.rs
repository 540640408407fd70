//! Results of calls on their way to the store: gathered for a moment, written together.
//!
//! They can't pile up: each belongs to a call that waited for a commit of its own before it was made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::Notes;
use crate::audit::Entry;
use crate::error_chain::chain;
use crate::job::JobId;

/// How long results are gathered.
const GATHER: Duration = Duration::from_millis(200);

type Waiting = Arc<Mutex<HashMap<JobId, Vec<Entry>>>>;

/// The results, and the task that writes them.
pub(super) struct Results {
    notes: Notes,
    waiting: Waiting,
    wake: Arc<Notify>,
    _writer: AbortOnDropHandle<()>,
}

impl Results {
    pub(super) fn new(notes: Notes) -> Self {
        let (waiting, wake) = (Waiting::default(), Arc::new(Notify::new()));
        let writer = write_all(notes.clone(), Arc::clone(&waiting), Arc::clone(&wake));
        Self { notes, waiting, wake, _writer: AbortOnDropHandle::new(tokio::spawn(writer)) }
    }

    /// Takes a result.
    pub(super) fn add(&self, job: &JobId, entry: Entry) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry(job.clone()).or_default().push(entry);
        self.wake.notify_one();
    }

    /// Writes those that wait.
    pub(super) async fn flush(&self) {
        write(&self.notes, &self.waiting).await;
    }
}

async fn write_all(notes: Notes, waiting: Waiting, wake: Arc<Notify>) {
    loop {
        wake.notified().await;
        tokio::time::sleep(GATHER).await;
        write(&notes, &waiting).await;
    }
}

/// A result that can't be written is lost to the audit, which then says that the call has none.
async fn write(notes: &Notes, waiting: &Waiting) {
    let taken = std::mem::take(&mut *waiting.lock().unwrap_or_else(PoisonError::into_inner));
    for (job, entries) in taken {
        if let Err(error) = notes.write(&job, entries).await {
            tracing::warn!(%job, error = %chain(&error), "results are missing in the audit");
        }
    }
}
