//! Where the truth is kept. SQLite by default; another database joins by implementing [`Store`].
//!
//! The interface speaks of jobs, not of tables. Every write is one commit that also assigns the ids of its events;
//! a write by an owner carries its [`Fence`] and is refused once another owner has taken the job. After a commit,
//! whoever watches the job is woken.

mod audit_lines;
mod errors;
mod rows;
pub(crate) mod sqlite;
mod watch;

use async_trait::async_trait;
use sandyard_protocol::{JournalEntry, JournalRow, OutputStream};

pub(crate) use audit_lines::audit_lines;
pub(crate) use errors::{OpenError, StoreError};
pub(crate) use rows::{
    Appended, EndedJob, InsertJob, Inserted, Retained, Said, StateCounts, StoredKey, StoredRequest,
};
pub(crate) use watch::JobWatch;

use crate::audit::{AuditEntry, AuditLine};
use crate::job::{Change, ChunkRow, EventRow, Fence, JobFilter, JobId, JobRow, Notes};

/// The store of one yard. Reads may be cancelled; a cancelled write may or may not have happened.
#[async_trait]
pub(crate) trait Store: Send + Sync + 'static {
    /// A job that is not being deleted.
    async fn job(&self, id: &JobId) -> Result<Option<JobRow>, StoreError>;

    /// A job, deleted or not: for reconcile.
    async fn any_job(&self, id: &JobId) -> Result<Option<JobRow>, StoreError>;

    /// What a job is to do.
    async fn request(&self, id: &JobId) -> Result<Option<StoredRequest>, StoreError>;

    /// Jobs before a number (all if `None`), newest first.
    async fn list(
        &self,
        filter: &JobFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<JobRow>, StoreError>;

    /// Events above `after`, in order.
    async fn events(&self, id: &JobId, after: u64, limit: usize) -> Result<Vec<EventRow>, StoreError>;

    /// Chunks of a stream of the job with that number, from a chunk on, in order; those that were dropped are missing.
    async fn chunks(
        &self,
        job: i64,
        stream: OutputStream,
        from: u64,
        limit: usize,
    ) -> Result<Vec<ChunkRow>, StoreError>;

    /// Chunks of the job with that number that hold bytes of a stream at or after an offset, in order.
    async fn chunks_after(
        &self,
        job: i64,
        stream: OutputStream,
        offset: u64,
    ) -> Result<Vec<ChunkRow>, StoreError>;

    /// Stores a job unless its key says otherwise. With a lease the job is claimed in the same commit: it is
    /// stored as `queued`, then the changes are applied.
    async fn insert(&self, job: InsertJob, claim: Option<Claim>) -> Result<Inserted, StoreError>;

    /// The oldest queued jobs that nobody owns, beginning after the job of that number.
    async fn queued(&self, after: i64, limit: usize) -> Result<Vec<JobRow>, StoreError>;

    /// Takes a job if it is free and still queued, and applies the changes.
    async fn claim_queued(&self, id: &JobId, claim: Claim) -> Result<Option<JobRow>, StoreError>;

    /// Takes every job that has begun its life, is not done with, and whose owner's lease has run out.
    async fn claim_orphans(&self, owner: &str, ttl_ms: u64) -> Result<Vec<JobRow>, StoreError>;

    /// Renews the leases of an owner; returns the jobs it still owns, with their epochs.
    async fn renew(&self, owner: &str, ttl_ms: u64) -> Result<Vec<Fence>, StoreError>;

    /// Gives all leases of an owner back.
    async fn release_all(&self, owner: &str) -> Result<(), StoreError>;

    /// Puts a claimed job that could not start back into the queue.
    async fn requeue(&self, fence: &Fence, reason: String) -> Result<(), StoreError>;

    /// Applies changes for an owner; returns the row after them.
    async fn commit(&self, fence: &Fence, changes: Vec<Change>) -> Result<JobRow, StoreError>;

    /// Adds an entry to a task's journal where a loop expects it: behind what was said meanwhile. The same entry is added once.
    async fn append(
        &self,
        fence: &Fence,
        number: u64,
        entry: Box<JournalEntry>,
    ) -> Result<Appended, StoreError>;

    /// Adds what a person says to a task that listens, and who said it to its audit; whoever owns the job is woken.
    async fn say(&self, id: &JobId, said: Box<JournalEntry>, entry: AuditEntry) -> Result<Said, StoreError>;

    /// Adds entries to a job's audit, before what they tell is done: what became of each, or `None` if the job is unknown.
    /// With an epoch, only for the owner. When it returns they outlive this process; the disk has them with the next commit
    /// of anything else, at most a heartbeat later.
    async fn note(
        &self,
        id: &JobId,
        epoch: Option<u64>,
        entries: Vec<AuditEntry>,
    ) -> Result<Option<Notes>, StoreError>;

    /// Records of the audit of the job with that number, from a number on, in order, at most so many.
    async fn audit(&self, job: i64, first: u64, limit: usize) -> Result<Vec<AuditLine>, StoreError>;

    /// Entries of the journal of the job with that number, from a number on, in order: at most so many, and no more once
    /// they have so many bytes.
    async fn journal(
        &self,
        job: i64,
        first: u64,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<JournalRow>, StoreError>;

    /// Asks for the end of a job; a queued one ends at once. `None` if unknown.
    async fn request_cancel(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError>;

    /// Marks a job as deleted: from then on only reconcile knows it. `None` if unknown.
    async fn request_delete(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError>;

    /// Removes every trace of a job that is marked as deleted.
    async fn remove(&self, fence: &Fence) -> Result<(), StoreError>;

    /// How much is kept and since when, without looking at every job.
    async fn retained(&self) -> Result<Retained, StoreError>;

    /// Ended jobs with nothing left to do, oldest end first.
    async fn ended(&self) -> Result<Vec<EndedJob>, StoreError>;

    /// Jobs that reconcile still has something to do for.
    async fn open_jobs(&self) -> Result<Vec<JobRow>, StoreError>;

    /// Every job id there is, deleted or not.
    async fn all_ids(&self) -> Result<Vec<JobId>, StoreError>;

    /// Jobs in each state.
    fn counts(&self) -> StateCounts;

    /// Wakes whenever something was committed for the job.
    fn watch(&self, id: &JobId) -> JobWatch;

    /// Returns when the store can't go on: after a failed fsync nothing it says is sure.
    async fn broken(&self) -> String;
}

/// Takes a job for an owner in the same commit as something else.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) owner: String,
    pub(crate) ttl_ms: u64,
    pub(crate) changes: Vec<Change>,
}

/// Bytes of small chunks are kept in the row up to this size: half a dozen database pages, cheaper than a file.
pub(crate) const INLINE_BYTES: usize = 16 * 1024;
