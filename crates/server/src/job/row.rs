//! A job as it is stored.

use sandyard_protocol::{OutputOffsets, OutputStream, Secret};
use sandyard_sandbox::driver::{IsolationLevel, SandboxId, Usage};

use sandyard_api::JobFailure;

use super::audit_row::AuditRow;
use super::id::JobId;
use super::limits::JobLimits;
use super::request::JobKind;
use super::state::{JobState, SandboxState};
use super::task_row::TaskRow;
use crate::audit::AuditHead;

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

/// Proves that the writer owns the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) job: JobId,
    pub(crate) epoch: u64,
}

/// The signed head of a row.
pub(crate) fn audit_head(row: &JobRow) -> Option<AuditHead> {
    let audit = row.audit.as_ref()?;
    Some(AuditHead {
        job: row.id.to_string(),
        records: audit.records,
        head: audit.head.clone(),
        signature: audit.signature.clone(),
        key: audit.key.clone(),
    })
}
