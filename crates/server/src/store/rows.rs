//! What the store takes and returns beside the rows of `job`.

use crate::audit::AuditEntry;
use crate::job::{InputFile, JobId, JobRow, NewJob};

/// A job to be stored.
#[derive(Debug, Clone)]
pub(crate) struct InsertJob {
    pub(crate) row: JobRow,
    pub(crate) request: StoredRequest,
    pub(crate) key: Option<StoredKey>,
    /// What its audit begins with.
    pub(crate) entry: AuditEntry,
    /// Jobs that may wait; at that number an insert is refused.
    pub(crate) queue: usize,
}

/// What the job is to do.
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

/// What an insert did.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Inserted {
    /// The row is stored.
    New(Box<JobRow>),
    /// The same request made this one before.
    Repeated(Box<JobRow>),
    /// The key belongs to another request.
    KeyTaken,
    /// Too many wait.
    QueueFull,
}

/// Which ended jobs retention should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedJob {
    pub(crate) id: JobId,
    pub(crate) finished_ms: i64,
    pub(crate) bytes: u64,
}

/// What retention needs to know before it looks at single jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retained {
    /// Artifacts and output of all jobs.
    pub(crate) bytes: u64,
    /// When the job that ended first of those that are left ended.
    pub(crate) oldest_ms: Option<i64>,
}

/// How many jobs are in each state, in the order of `JobState::ALL`.
pub(crate) type StateCounts = [u64; 9];

/// What became of an entry that a loop wanted to add.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Appended {
    /// It is in the journal, now or from before.
    Kept { number: u64 },
    /// Its number belongs to another entry, or comes too early.
    NumberTaken,
    /// The journal is full.
    Full,
    /// The job is over, or ends.
    Ended,
}

/// What became of a person's words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// They are in the journal.
    Kept(Box<JobRow>),
    /// The job does not listen in its state.
    Deaf(Box<JobRow>),
    /// There is no such job.
    Unknown,
}
