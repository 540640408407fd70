//! A new job: stored once for each idempotency key, and only while the queue has room.

use sandyard_protocol::JournalEntry;

use super::{JobBefore, JobLease, StoreRules};
use crate::job::JobRow;
use crate::job::apply::{self, Applied};
use crate::store::{InsertJob, Inserted, JobClaim, StoreError, StoredKey, StoredRequest};

/// An idempotency key that is stored already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundKey {
    pub(crate) body_sha256: [u8; 32],
    /// Number of the job that it made.
    pub(crate) job: i64,
}

/// The meaning of a stored key for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatedKey {
    /// An equal request made the job of that number before.
    Same(i64),
    /// The key belongs to another request.
    Taken,
}

/// Compares a request with the one that used its key before.
pub(crate) fn answer_repeat(found: FoundKey, key: &StoredKey) -> RepeatedKey {
    if found.body_sha256 == key.body_sha256 { RepeatedKey::Same(found.job) } else { RepeatedKey::Taken }
}

/// The decision on a request whose key is new.
#[derive(Debug)]
pub(crate) enum InsertDecision {
    /// The store writes nothing and returns this answer.
    Answer(Inserted),
    /// The store writes the job.
    Write(Box<NewJobWrite>),
}

/// Everything that a new job writes, all in one commit. The store gives the row its number.
#[derive(Debug)]
pub(crate) struct NewJobWrite {
    pub(crate) row: JobRow,
    pub(crate) lease: JobLease,
    pub(crate) request: StoredRequest,
    pub(crate) key: Option<StoredKey>,
    pub(crate) applied: Applied,
}

impl StoreRules<'_> {
    /// Decides on a request whose key is new, with `queued` jobs in the queue. A claimed job never waits, so it needs no room
    /// there; its events are those of a job that was queued and then claimed.
    pub(crate) fn insert(
        &self,
        job: InsertJob,
        queued: u64,
        claim: Option<JobClaim>,
    ) -> Result<InsertDecision, StoreError> {
        if claim.is_none() && queued >= job.queue as u64 {
            return Ok(InsertDecision::Answer(Inserted::QueueFull));
        }
        let (mut row, mut applied) = (job.row, Applied::default());
        // The time of the write: a request may have waited in the writer's queue.
        row.created_ms = self.now.wall_ms;
        apply::state_event(&mut row, self.now.wall_ms, &mut applied);
        apply::audit(&mut row, &job.entry, self.now.wall_ms, &mut applied);
        if row.task.is_some() {
            let task = JournalEntry::Task { text: job.request.job.code.clone() };
            apply::first_entry(&mut row, &task, self.now.wall_ms, &mut applied)?;
        }
        let mut lease = JobLease::free();
        if let Some(claim) = claim {
            let claimed = self.take(JobBefore::of(&row), row, claim)?;
            row = claimed.row;
            lease = claimed.lease.unwrap_or_default();
            applied.extend(claimed.applied);
        }
        // The head of the whole chain: a claim may have added records or none.
        self.sign(&mut row, &applied);
        let write = NewJobWrite { row, lease, request: job.request, key: job.key, applied };
        Ok(InsertDecision::Write(Box::new(write)))
    }
}
