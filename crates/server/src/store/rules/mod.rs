//! The decisions of a store, without I/O: every store reads rows, asks a rule, and writes the answer in the same commit.
//!
//! A rule takes the rows that the store has read and returns the answer and the writes. It never waits, never fails for
//! reasons of a database, and gives the same answer for the same rows, time and key. `insert` makes jobs, `claim` gives them
//! to owners, `requests` handles cancel and delete, `journal` and `audit` add entries, `sandboxes` says which are needed.

mod audit;
mod claim;
mod insert;
mod journal;
mod lease;
mod requests;
mod sandboxes;
mod texts;

pub(crate) use audit::YardNote;
pub(crate) use insert::{FoundKey, InsertDecision, NewJobWrite, RepeatedKey, answer_repeat};
pub(crate) use journal::{AppendDecision, SayDecision, StoredEntry};
pub(crate) use lease::{JobLease, LeasedJob};
pub(crate) use requests::CancelDecision;
pub(crate) use sandboxes::{SandboxFate, fate_of, write_sandbox};
#[cfg(test)]
pub(crate) use texts::TextsWrite;

use super::{AuditSigner, StoreError};
use crate::audit::AuditEntry;
use crate::clock::Clock;
use crate::job::apply::{self, Applied};
use crate::job::{Change, JobFence, JobRow, JobState};

/// The two times of a write: one for people, one for leases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteTime {
    /// Milliseconds since the epoch; may jump.
    pub(crate) wall_ms: i64,
    /// Milliseconds since boot, suspend included; never jumps. A store that several hosts share takes the database's clock.
    pub(crate) lease_ms: i64,
}

impl WriteTime {
    /// The time on this host.
    pub(crate) fn of(clock: &Clock) -> Self {
        Self { wall_ms: clock.unix_ms(), lease_ms: clock.boot_ms() }
    }
}

/// The rules at the time of one write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreRules<'a> {
    pub(crate) now: WriteTime,
    pub(crate) signer: &'a AuditSigner,
}

/// The writes of one decision about a stored job, all in one commit.
#[derive(Debug)]
pub(crate) struct JobWrite {
    /// The row as it is to be stored.
    pub(crate) row: JobRow,
    pub(crate) before: JobBefore,
    /// The lease as it is to be stored; `None` leaves it alone.
    pub(crate) lease: Option<JobLease>,
    /// The rows to add beside the job's own.
    pub(crate) applied: Applied,
    /// The entry to add to the yard's audit.
    pub(crate) for_yard: Option<AuditEntry>,
}

/// The facts about a row before a write that the totals of a store need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobBefore {
    pub(crate) state: JobState,
    pub(crate) kept_bytes: u64,
    open: bool,
}

impl JobBefore {
    fn of(row: &JobRow) -> Self {
        Self { state: row.state, kept_bytes: row.kept_bytes(), open: row.open }
    }
}

impl JobWrite {
    /// True if the files of the request are to be deleted. They are in the workspace's archive, if the job left them there.
    pub(crate) fn drops_request_files(&self) -> bool {
        self.before.open && !self.row.open
    }
}

impl StoreRules<'_> {
    /// Applies the changes of an owner.
    pub(crate) fn commit(
        &self,
        found: Option<JobRow>,
        fence: &JobFence,
        changes: Vec<Change>,
    ) -> Result<JobWrite, StoreError> {
        let row = owned(found, fence)?;
        self.change(JobBefore::of(&row), row, changes)
    }

    /// Applies changes to a row. `before` is taken of the row as it was stored.
    fn change(
        &self,
        before: JobBefore,
        mut row: JobRow,
        changes: Vec<Change>,
    ) -> Result<JobWrite, StoreError> {
        let applied = apply::apply(&mut row, changes, self.now.wall_ms)?;
        // Signed once for all records of the commit, in the writer: no row is ever stored with a head that its signature does
        // not cover.
        self.sign(&mut row, &applied);
        Ok(JobWrite { row, before, lease: None, applied, for_yard: None })
    }

    fn sign(&self, row: &mut JobRow, applied: &Applied) {
        if let Some(audit) = row.audit.as_mut().filter(|_| !applied.audit.is_empty()) {
            self.signer.sign(row.id.as_str(), audit);
        }
    }
}

/// Returns the row if the fence's epoch is still the row's. Every write of an owner goes through this check.
pub(crate) fn owned(found: Option<JobRow>, fence: &JobFence) -> Result<JobRow, StoreError> {
    found.filter(|row| row.epoch == fence.epoch).ok_or_else(|| StoreError::Stale(fence.job.clone()))
}

/// A row that clients may know of.
fn known(found: Option<JobRow>) -> Option<JobRow> {
    found.filter(|row| !row.delete_requested)
}
