//! Arguments and answers of a store beside the rows of `job`.

use crate::audit::AuditEntry;
use crate::job::{InputFile, JobId, JobRow, NewJob};

/// The chain that records belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditOf {
    /// The yard's own, which outlives every job.
    Yard,
    /// That of the job with this number.
    Job(i64),
}

/// A job to be stored.
#[derive(Debug, Clone)]
pub(crate) struct InsertJob {
    pub(crate) row: JobRow,
    pub(crate) request: StoredRequest,
    pub(crate) key: Option<StoredKey>,
    /// First record of its audit.
    pub(crate) entry: AuditEntry,
    /// Length of the queue at which an insert is refused.
    pub(crate) queue: usize,
}

/// The request that made a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredRequest {
    /// The request without its files.
    pub(crate) job: NewJob,
    pub(crate) files: Vec<InputFile>,
}

/// An idempotency key, hashed: the store never holds the client's own text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) key_sha256: [u8; 32],
    pub(crate) body_sha256: [u8; 32],
}

/// The answer to an insert.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Inserted {
    /// The row is stored.
    New(Box<JobRow>),
    /// An equal request with the same key made this job before.
    Repeated(Box<JobRow>),
    /// The key belongs to another request.
    KeyTaken,
    /// The queue is full.
    QueueFull,
}

/// A job that retention may remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedJob {
    pub(crate) id: JobId,
    pub(crate) finished_ms: i64,
    pub(crate) bytes: u64,
}

/// Totals that tell retention whether to look at single jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retained {
    /// Artifacts and output of all jobs.
    pub(crate) bytes: u64,
    /// Earliest end of a job that is kept.
    pub(crate) oldest_ms: Option<i64>,
}

/// Number of jobs in each state, in the order of `JobState::ALL`.
pub(crate) type StateCounts = [u64; 9];

/// The answer to an entry of a loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Appended {
    /// It is in the journal, now or from before.
    Kept { number: u64 },
    /// The number belongs to another entry, or is not next.
    NumberTaken,
    /// The journal is full.
    Full,
    /// The job is over, or ends.
    Ended,
}

/// The answer to a person's words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// They are in the journal.
    Kept(Box<JobRow>),
    /// The job does not take words in its state.
    Deaf(Box<JobRow>),
    /// There is no such job.
    Unknown,
}
