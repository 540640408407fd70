//! What the store keeps of a job, and the closed set of changes that can happen to it.

use bytes::Bytes;
use sandyard_protocol::{JournalEntry, OutputOffsets, OutputStream, Secret};
use sandyard_sandbox::driver::{Isolation, IsolationLevel, SandboxId, Usage};

use super::audit_rows::AuditRow;
use super::task_rows::{SpentRow, TaskRow};
use crate::app::{InputFile, JobFailure, JobKind};
use crate::audit::Entry;
use crate::config::JobLimits;
use crate::job_id::JobId;
use crate::states::{JobState, SandboxState};

/// A job as it is stored. Everything but the request's text, its files, its events and its output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobRow {
    /// Order of creation; 0 before the row is stored.
    pub(crate) number: i64,
    pub(crate) id: JobId,
    pub(crate) name: Option<String>,
    pub(crate) kind: JobKind,
    pub(crate) limits: JobLimits,
    pub(crate) keep: bool,
    pub(crate) created_ms: i64,
    pub(crate) state: JobState,
    pub(crate) sandbox: SandboxState,
    pub(crate) reason: Option<String>,
    pub(crate) requested_isolation: String,
    pub(crate) driver: Option<String>,
    pub(crate) runtime: Option<String>,
    /// The wall it got: no later sandbox of the job has a weaker one.
    pub(crate) level: Option<IsolationLevel>,
    pub(crate) isolation_reason: Option<String>,
    pub(crate) started_ms: Option<i64>,
    pub(crate) finished_ms: Option<i64>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) failure: Option<JobFailure>,
    pub(crate) usage: Option<Usage>,
    /// The terminal state it will reach; set while it is finishing.
    pub(crate) outcome: Option<JobState>,
    pub(crate) artifact: Option<ArtifactRow>,
    /// How many sandboxes have been made for it.
    pub(crate) incarnation: u32,
    /// How many of them were to run its process.
    pub(crate) attempts: u32,
    /// Whether its process may have begun in the present sandbox: from then on it is never begun again.
    pub(crate) begun: bool,
    pub(crate) secret: Secret,
    /// Rises whenever a server takes the job; fences every later write.
    pub(crate) epoch: u64,
    pub(crate) cancel_requested: bool,
    pub(crate) delete_requested: bool,
    /// Whether reconcile still has something to do for it.
    pub(crate) open: bool,
    /// Last event of the guest that was committed.
    pub(crate) guest_sequence: u64,
    pub(crate) stdout: StreamRow,
    pub(crate) stderr: StreamRow,
    pub(crate) last_event: u64,
    pub(crate) revision: u64,
    /// What it sent to and received from the network.
    pub(crate) egress_bytes: u64,
    /// How far a task is; other jobs have none.
    pub(crate) task: Option<TaskRow>,
    /// Bytes of its journal.
    pub(crate) journal_bytes: u64,
    /// How far its audit is; none if nothing was recorded yet.
    pub(crate) audit: Option<AuditRow>,
    /// Bytes of its audit.
    pub(crate) audit_bytes: u64,
}

impl JobRow {
    /// The name of the present sandbox, if there is or was one.
    pub(crate) fn sandbox_id(&self) -> Option<SandboxId> {
        (self.incarnation > 0).then(|| SandboxId::parse(&format!("{}-{}", self.id, self.incarnation)))?
    }

    /// What a write by the present owner must carry.
    pub(crate) fn fence(&self) -> Fence {
        Fence { job: self.id.clone(), epoch: self.epoch }
    }

    pub(crate) fn stream(&self, stream: OutputStream) -> &StreamRow {
        match stream {
            OutputStream::Stdout => &self.stdout,
            OutputStream::Stderr => &self.stderr,
        }
    }

    pub(crate) fn stream_mut(&mut self, stream: OutputStream) -> &mut StreamRow {
        match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        }
    }

    /// What is kept of it on disk: artifact and output.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let artifact = self.artifact.as_ref().map_or(0, |artifact| artifact.bytes);
        self.journal_bytes + self.audit_bytes + artifact + self.stdout.bytes - self.stdout.dropped
            + self.stderr.bytes
            - self.stderr.dropped
    }

    /// Where output of the present machine stands among all of the job's: a task may have had machines before.
    pub(crate) fn host_offset(&self, stream: OutputStream, offset: u64) -> u64 {
        let base = self.task.as_ref().map(|task| task.output_base).unwrap_or_default();
        offset.saturating_add(match stream {
            OutputStream::Stdout => base.stdout,
            OutputStream::Stderr => base.stderr,
        })
    }

    /// The other way round.
    pub(crate) fn guest_offsets(&self, offsets: OutputOffsets) -> OutputOffsets {
        let base = self.task.as_ref().map(|task| task.output_base).unwrap_or_default();
        OutputOffsets {
            stdout: offsets.stdout.saturating_sub(base.stdout),
            stderr: offsets.stderr.saturating_sub(base.stderr),
        }
    }

    /// How much output is committed.
    pub(crate) fn output_offsets(&self) -> OutputOffsets {
        OutputOffsets { stdout: self.stdout.bytes, stderr: self.stderr.bytes }
    }
}

/// The output of one stream, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StreamRow {
    /// Bytes that came out.
    pub(crate) bytes: u64,
    /// Bytes of the middle that were dropped.
    pub(crate) dropped: u64,
    /// Number of the next chunk.
    pub(crate) next_chunk: u64,
    /// First chunk of the tail that is still there, once something was dropped.
    pub(crate) tail_chunk: u64,
}

/// A stored artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArtifactRow {
    /// In hexadecimal.
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
}

/// A job to be stored.
#[derive(Debug, Clone)]
pub(crate) struct InsertJob {
    pub(crate) row: JobRow,
    pub(crate) request: StoredRequest,
    pub(crate) key: Option<StoredKey>,
    /// What its audit begins with.
    pub(crate) entry: Entry,
    /// Jobs that may wait; at that number an insert is refused.
    pub(crate) queue: usize,
}

/// What the job is to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredRequest {
    /// The request without its files.
    pub(crate) job: crate::app::NewJob,
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

/// Proves that the writer owns the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) job: JobId,
    pub(crate) epoch: u64,
}

/// One thing that happens to a job. A batch of them is one commit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// To another state, by the table of legal moves; leaves a `state` event.
    Move { to: JobState, reason: Option<String> },
    /// Another reason in the same state.
    Reason(Option<String>),
    /// Which driver runs it.
    Isolation { driver: String, isolation: Isolation, reason: Option<String> },
    /// The next sandbox for it. `purpose` says whether the job's process is to run in it.
    Incarnation { secret: Secret, purpose: Purpose },
    /// Whether its process may have begun.
    Begun(bool),
    /// Whether its machine is there.
    Sandbox(SandboxState),
    /// Events of the guest up to this one are in this batch or an earlier one.
    GuestSequence(u64),
    /// Output; leaves an event with its place.
    Output(ChunkRow),
    /// Chunks of the middle, from the first to before the second, are dropped; leaves a `truncated` event the first time.
    Dropped { stream: OutputStream, first: u64, end: u64, bytes: u64 },
    /// How its process ended, and what its last state will be.
    Ended { outcome: JobState, exit_code: Option<i32>, failure: Option<JobFailure> },
    /// What the machine used.
    Usage(Usage),
    /// So many more bytes went through the egress gateway.
    EgressBytes(u64),
    /// What the job has spent on models in all; never falls.
    Spent(SpentRow),
    /// The next entry of a task's journal, with all that follows from it: the question, the state, the summary, events.
    Journal(Box<JournalEntry>),
    /// The artifact is in place.
    Artifact(ArtifactRow),
    /// An entry of its audit.
    Audit(Entry),
    /// An event of another kind.
    Event { kind: &'static str, data: serde_json::Value },
    /// Nothing is left to do.
    Closed,
}

/// What a sandbox is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To run the job.
    Run,
    /// To take the workspace out, after the machine that ran the job died.
    Rescue,
}

/// A run of output, immutable once committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkRow {
    pub(crate) stream: OutputStream,
    pub(crate) number: u64,
    /// Of its first byte in the stream.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Small ones are kept here, larger ones in a file of that number.
    pub(crate) inline: Option<Bytes>,
}

/// A committed event. The text of output is not in it, only its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventRow {
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) at_ms: i64,
    pub(crate) data: serde_json::Value,
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
