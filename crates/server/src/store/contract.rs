//! The contract of every store.

use async_trait::async_trait;
use sandyard_api::JobIdPrefix;
use sandyard_memory::ContentDigest;
use sandyard_protocol::{JournalEntry, JournalRow, OutputStream};
use sandyard_sandbox::driver::SandboxId;

use super::errors::StoreError;
use super::rows::{
    Appended, AuditOf, EndedJob, InsertJob, Inserted, Retained, Said, StateCounts, StoredRequest,
};
use super::watch::JobWatch;
use crate::audit::{AuditEntry, AuditLine};
use crate::job::{
    AuditRow, Change, ChunkRow, EventRow, JobFence, JobFilter, JobId, JobRow, NewText, NotedEntries,
    SandboxRow, StoredText, TextRow,
};

/// The store of one yard. Reads may be cancelled; a cancelled write may or may not have happened.
#[async_trait]
pub(crate) trait Store: Send + Sync + 'static {
    /// Returns a job that is not being deleted.
    async fn job(&self, id: &JobId) -> Result<Option<JobRow>, StoreError>;

    /// Returns a job, also while it is being deleted: for its owner.
    async fn any_job(&self, id: &JobId) -> Result<Option<JobRow>, StoreError>;

    /// True if the job that was read with this revision has not changed since. A store that only this process writes may return
    /// `true` without looking, because every cache of rows in this process is notified of its writes.
    async fn is_current(&self, id: &JobId, revision: u64) -> Result<bool, StoreError>;

    /// Returns the request of a job.
    async fn request(&self, id: &JobId) -> Result<Option<StoredRequest>, StoreError>;

    /// Returns jobs before a number (all if `None`), newest first.
    async fn list(
        &self,
        filter: &JobFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<JobRow>, StoreError>;

    /// Returns events above `after`, in order.
    async fn events(&self, id: &JobId, after: u64, limit: usize) -> Result<Vec<EventRow>, StoreError>;

    /// Returns events of one kind above `after`, in order.
    async fn events_of_kind(
        &self,
        id: &JobId,
        kind: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRow>, StoreError>;

    /// Returns chunks of a stream of the job with that number, from a chunk on, in order, without those that were dropped.
    async fn chunks(
        &self,
        job: i64,
        stream: OutputStream,
        from: u64,
        limit: usize,
    ) -> Result<Vec<ChunkRow>, StoreError>;

    /// Returns chunks of the job with that number that hold bytes of a stream at or after an offset, in order.
    async fn chunks_after(
        &self,
        job: i64,
        stream: OutputStream,
        offset: u64,
    ) -> Result<Vec<ChunkRow>, StoreError>;

    /// Stores a job unless its key says otherwise. With a claim the job gets its owner in the same commit: it is
    /// stored as `queued`, then the changes are applied.
    async fn insert(&self, job: InsertJob, claim: Option<JobClaim>) -> Result<Inserted, StoreError>;

    /// Returns the oldest queued jobs that are not being deleted, beginning after the job of that number.
    async fn queued(&self, after: i64, limit: usize) -> Result<Vec<JobRow>, StoreError>;

    /// Takes a job if it is free and still queued, and applies the changes.
    async fn claim_queued(&self, id: &JobId, claim: JobClaim) -> Result<Option<JobRow>, StoreError>;

    /// Takes every job that has begun its life, is not done with, and whose owner's lease has run out. Their sandboxes change
    /// hands with them.
    async fn claim_orphans(&self, owner: &str, ttl_ms: u64) -> Result<Vec<JobRow>, StoreError>;

    /// Renews the leases of an owner; returns the jobs that it still owns, with their epochs.
    async fn renew(&self, owner: &str, ttl_ms: u64) -> Result<Vec<JobFence>, StoreError>;

    /// Gives back all leases and sandboxes of an owner.
    async fn release_all(&self, owner: &str) -> Result<(), StoreError>;

    /// Puts a claimed job that could not start back into the queue. Its sandbox must be stopped; the row of that goes.
    async fn requeue(&self, fence: &JobFence, reason: String) -> Result<(), StoreError>;

    /// Applies changes for an owner; returns the row after them.
    async fn commit(&self, fence: &JobFence, changes: Vec<Change>) -> Result<JobRow, StoreError>;

    /// Adds an entry to a task's journal where a loop expects it: behind people's words that came meanwhile. The same entry is
    /// added once.
    async fn append(
        &self,
        fence: &JobFence,
        number: u64,
        entry: Box<JournalEntry>,
    ) -> Result<Appended, StoreError>;

    /// Adds a person's words to a task that listens, and their speaker to its audit; the owner of the job is woken.
    async fn say(&self, id: &JobId, said: Box<JournalEntry>, entry: AuditEntry) -> Result<Said, StoreError>;

    /// Adds entries to a job's audit, before the recorded acts are done. Returns a result for each, or `None` if the job is
    /// unknown. With an epoch, only for the owner. When it returns they outlive this process; the disk has them with the next
    /// commit of anything else, at most a heartbeat later.
    async fn note(
        &self,
        id: &JobId,
        epoch: Option<u64>,
        entries: Vec<AuditEntry>,
    ) -> Result<Option<NotedEntries>, StoreError>;

    /// Returns at most `limit` records of an audit, from a record on, in order.
    async fn audit(&self, of: AuditOf, first: u64, limit: usize) -> Result<Vec<AuditLine>, StoreError>;

    /// Adds an entry to the yard's own audit. Cancellations and deletions add theirs in their own commits.
    async fn note_yard(&self, entry: AuditEntry) -> Result<(), StoreError>;

    /// Returns the end of the yard's own audit, signed also before its first record.
    async fn yard_audit(&self) -> Result<AuditRow, StoreError>;

    /// Returns entries of the journal of the job with that number, from an entry on, in order: at most `limit`, and none behind
    /// the one with which they reach `bytes`.
    async fn journal(
        &self,
        job: i64,
        first: u64,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<JournalRow>, StoreError>;

    /// Keeps texts behind a job's journal; `None` if the job is unknown. With an epoch, only for the owner, who appends the entry
    /// that they belong to next. When it returns they outlive this process; the disk has them with the next commit of anything
    /// else. Nobody is woken.
    async fn keep_texts(
        &self,
        id: &JobId,
        epoch: Option<u64>,
        texts: Vec<NewText>,
    ) -> Result<Option<()>, StoreError>;

    /// Returns kept texts of the job with that number, from a text on, in order, without their bytes.
    async fn texts(&self, job: i64, first: u64, limit: usize) -> Result<Vec<TextRow>, StoreError>;

    /// Returns the newest texts of a path that came before a journal entry, newest first, without their bytes.
    async fn texts_of(
        &self,
        job: i64,
        path: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<TextRow>, StoreError>;

    /// Returns texts of a journal entry, in order, without their bytes.
    async fn texts_at(&self, job: i64, entry: u64, limit: usize) -> Result<Vec<TextRow>, StoreError>;

    /// Returns where the bytes of a text are; `None` if the job has no such text, or lost its bytes.
    async fn text(&self, job: i64, digest: ContentDigest) -> Result<Option<StoredText>, StoreError>;

    /// Asks for the end of a job; a queued one ends at once. `None` if unknown.
    async fn request_cancel(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError>;

    /// Marks a job as deleted: from then on only its owner knows it. `None` if unknown.
    async fn request_delete(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError>;

    /// Removes every trace of a job that is marked as deleted. A sandbox that it still has keeps its row, to be stopped.
    async fn remove(&self, fence: &JobFence) -> Result<(), StoreError>;

    /// Returns the total size of retained jobs and the time of the oldest end, without a scan of all jobs.
    async fn retained(&self) -> Result<Retained, StoreError>;

    /// Returns ended jobs with nothing left to do, oldest end first.
    async fn ended(&self) -> Result<Vec<EndedJob>, StoreError>;

    /// Returns jobs that have something left to do.
    async fn open_jobs(&self) -> Result<Vec<JobRow>, StoreError>;

    /// Returns the ids of jobs that begin with a prefix, in order, without those that are being deleted.
    async fn ids_beginning(&self, prefix: &JobIdPrefix, limit: usize) -> Result<Vec<JobId>, StoreError>;

    /// Returns the ids of all jobs, including those that are being deleted.
    async fn all_ids(&self) -> Result<Vec<JobId>, StoreError>;

    /// Returns the row of a sandbox.
    async fn sandbox(&self, id: &SandboxId) -> Result<Option<SandboxRow>, StoreError>;

    /// Returns the rows of all sandboxes, oldest first.
    async fn sandboxes(&self) -> Result<Vec<SandboxRow>, StoreError>;

    /// Deletes the row of a sandbox that no job has. Its driver must have stopped it. Succeeds if there is none.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), StoreError>;

    /// Returns the number of jobs in each state.
    fn counts(&self) -> StateCounts;

    /// Returns a watch that wakes after every commit for the job.
    fn watch(&self, id: &JobId) -> JobWatch;

    /// Returns when another server has queued a job since the last call. A store of one server never does.
    async fn queue_grew(&self) {
        std::future::pending().await
    }

    /// Returns when the store can't continue. After a failed sync the content of the disk is unknown, so no answer can be
    /// trusted.
    async fn broken(&self) -> String;
}

/// Gives a job to an owner, and applies changes in the same commit.
#[derive(Debug, Clone)]
pub(crate) struct JobClaim {
    pub(crate) owner: String,
    pub(crate) ttl_ms: u64,
    pub(crate) changes: Vec<Change>,
}

/// Bytes of small chunks are kept in the row up to this size: half a dozen database pages, cheaper than a file.
pub(crate) const INLINE_BYTES: usize = 16 * 1024;
