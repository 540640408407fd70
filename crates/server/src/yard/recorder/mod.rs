//! The audit recorder: records API calls before they are made, their results, and the files they changed.
//!
//! A call is recorded before it is made, and rejected if that fails. Its result is recorded shortly afterwards together with
//! other results (`result_queue`), so that no caller waits for it: a call without a result is one during which the server
//! died. After a call that may have changed files, `workspace_diff` compares the workspace with its last known state.

mod result_queue;
mod workspace_diff;

use std::sync::Arc;

use self::result_queue::ResultQueue;
use self::workspace_diff::WorkspaceDiffs;
use super::{Machines, StatusCache};
use crate::audit::{AuditActor, AuditEntry, AuditFacts, AuditKind, CallEnd, CallRecord, ResultFacts};
use crate::job::{JobId, NotedEntry};
use crate::store::{Store, StoreError};

/// The audit recorder of a yard.
pub(crate) struct AuditRecorder {
    writer: AuditWriter,
    results: ResultQueue,
    diffs: WorkspaceDiffs,
}

/// Appends entries to the audits in the store, for callers that do not own the job.
#[derive(Clone)]
struct AuditWriter {
    store: Arc<dyn Store>,
    ended: Arc<StatusCache>,
}

impl AuditWriter {
    /// Writes entries. Returns the result for each; `None` if there is no such job.
    async fn write(
        &self,
        job: &JobId,
        entries: Vec<AuditEntry>,
    ) -> Result<Option<Vec<NotedEntry>>, StoreError> {
        let written = self.store.note(job, None, entries).await?;
        if written.as_ref().is_some_and(|written| written.is_over) {
            // The cached status of an ended job contains the head of its audit, which has just changed.
            self.ended.forget(job);
        }
        Ok(written.map(|written| written.noted))
    }
}

/// A recorded call without a result. Dropping it records that the caller gave up.
pub(crate) struct RecordedCall {
    recorder: Arc<AuditRecorder>,
    job: JobId,
    kind: AuditKind,
    /// Number of the call's record; none if it was folded.
    number: Option<u64>,
    ended: bool,
}

impl AuditRecorder {
    pub(crate) fn new(store: Arc<dyn Store>, ended: Arc<StatusCache>, machines: Machines) -> Arc<Self> {
        let writer = AuditWriter { store, ended };
        let results = ResultQueue::new(writer.clone());
        let diffs = WorkspaceDiffs::new(writer.clone(), machines);
        Arc::new(Self { writer, results, diffs })
    }

    /// Records a call. Returns none for an unknown job, which has no audit; the handler reports that to the caller.
    pub(crate) async fn call(
        self: &Arc<Self>,
        job: &JobId,
        call: CallRecord,
    ) -> Result<Option<RecordedCall>, StoreError> {
        let entry = AuditEntry::new(AuditActor::Operator, AuditFacts::Call(Box::new(call)));
        let kind = entry.kind();
        // Awaited, unlike the result: the caller must not act before its call is in the audit.
        let noted = self.writer.write(job, vec![entry]).await?;
        Ok(noted.map(|noted| {
            let number = noted.into_iter().find_map(|noted| match noted {
                NotedEntry::Record(number) => Some(number),
                NotedEntry::Folded => None,
            });
            RecordedCall { recorder: Arc::clone(self), job: job.clone(), kind, number, ended: false }
        }))
    }

    /// Compares the workspace soon, and records the changes with `after` as a cause. Does not wait.
    pub(crate) fn diff_workspace(&self, job: &JobId, after: String) {
        self.diffs.request(job, after);
    }

    /// Writes the results that wait in the queue.
    pub(crate) async fn settle(&self) {
        self.results.flush().await;
    }
}

impl RecordedCall {
    /// Records the result of the call, soon and without a wait.
    pub(crate) fn ended(mut self, end: CallEnd) {
        self.queue_result(end);
    }

    fn queue_result(&mut self, end: CallEnd) {
        self.ended = true;
        let facts = ResultFacts { of: self.number, kind: self.kind.as_str(), end };
        let entry = AuditEntry::new(AuditActor::Host, AuditFacts::Result(facts));
        self.recorder.results.add(&self.job, entry);
    }

    /// Compares the workspace soon, with this call as a cause.
    pub(crate) fn diff_workspace(&self) {
        let number = self.number.map(|number| format!(" {number}")).unwrap_or_default();
        self.recorder.diff_workspace(&self.job, format!("{}{number}", self.kind.as_str()));
    }
}

impl Drop for RecordedCall {
    fn drop(&mut self) {
        if !self.ended {
            self.queue_result(CallEnd::GivenUp { given_up: true });
        }
    }
}
