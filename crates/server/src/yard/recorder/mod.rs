//! What writes the audit beside the commits of reconcile: calls that are about to be made, how they ended, and what they left
//! behind in the workspace.
//!
//! A call is noted before it is made, and not made if it can't be. Its result is noted a moment later, together with
//! others (`results`), so that nobody waits for it: a call without a result is one during which the server died. After calls
//! that may have changed files a look is taken at the workspace (`looks`), beside everything else.

mod results;
mod workspace_diff;

use std::sync::Arc;

use serde_json::{Value, json};

use self::results::Results;
use self::workspace_diff::WorkspaceDiffs;
use super::{Machines, StatusCache};
use crate::audit::{Actor, Entry, Kind};
use crate::job::JobId;
use crate::job::Noted;
use crate::store::{Store, StoreError};

/// The recorder of a yard.
pub(crate) struct AuditRecorder {
    notes: Notes,
    results: Results,
    diffs: WorkspaceDiffs,
}

/// The way to the store for what is noted.
#[derive(Clone)]
struct Notes {
    store: Arc<dyn Store>,
    ended: Arc<StatusCache>,
}

impl Notes {
    async fn write(&self, job: &JobId, entries: Vec<Entry>) -> Result<Option<Vec<Noted>>, StoreError> {
        let written = self.store.note(job, None, entries).await?;
        if written.as_ref().is_some_and(|written| written.is_over) {
            // The status that is kept tells the head of its audit.
            self.ended.forget(job);
        }
        Ok(written.map(|written| written.noted))
    }
}

/// A call that was noted and has no result yet. Dropped, it is one that was given up.
pub(crate) struct RecordedCall {
    recorder: Arc<AuditRecorder>,
    job: JobId,
    kind: Kind,
    number: Option<u64>,
    ended: bool,
}

impl AuditRecorder {
    pub(crate) fn new(store: Arc<dyn Store>, ended: Arc<StatusCache>, machines: Machines) -> Arc<Self> {
        let notes = Notes { store, ended };
        let results = Results::new(notes.clone());
        let diffs = WorkspaceDiffs::new(notes.clone(), machines);
        Arc::new(Self { notes, results, diffs })
    }

    /// Notes a call; an unknown job has no audit, and its caller is told elsewhere.
    pub(crate) async fn call(
        self: &Arc<Self>,
        job: &JobId,
        kind: Kind,
        facts: Value,
    ) -> Result<Option<RecordedCall>, StoreError> {
        let noted = self.notes.write(job, vec![Entry::new(Actor::Operator, kind, facts)]).await?;
        Ok(noted.map(|noted| {
            let number = noted.into_iter().find_map(|noted| match noted {
                Noted::Record(number) => Some(number),
                Noted::Folded => None,
            });
            RecordedCall { recorder: Arc::clone(self), job: job.clone(), kind, number, ended: false }
        }))
    }

    /// WorkspaceDiffs at what has changed in a workspace, soon, because of what is named.
    pub(crate) fn look(&self, job: &JobId, after: String) {
        self.diffs.ask(job, after);
    }

    /// Writes what is still to be written.
    pub(crate) async fn settle(&self) {
        self.results.flush().await;
    }
}

impl RecordedCall {
    /// It is over.
    pub(crate) fn ended(mut self, facts: Value) {
        self.tell(facts);
    }

    fn tell(&mut self, mut facts: Value) {
        self.ended = true;
        if let Some(members) = facts.as_object_mut() {
            members.insert("of".to_owned(), json!(self.number));
            members.insert("kind".to_owned(), json!(self.kind.as_str()));
        }
        self.recorder.results.add(&self.job, Entry::new(Actor::Host, Kind::Result, facts));
    }

    /// What it may have changed is looked at.
    pub(crate) fn look(&self) {
        let number = self.number.map(|number| format!(" {number}")).unwrap_or_default();
        self.recorder.look(&self.job, format!("{}{number}", self.kind.as_str()));
    }
}

impl Drop for RecordedCall {
    fn drop(&mut self) {
        if !self.ended {
            self.tell(json!({ "given_up": true }));
        }
    }
}
