//! A job as it is stored.

use sandyard_protocol::{OutputOffsets, OutputStream};
use sandyard_sandbox::driver::{IsolationLevel, SandboxId, Usage};
use serde::{Deserialize, Serialize};

use sandyard_api::JobFailure;

use super::audit_row::AuditRow;
use super::id::JobId;
use super::limits::EffectiveLimits;
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
    pub(crate) limits: EffectiveLimits,
    pub(crate) keep: bool,
    pub(crate) created_ms: i64,
    pub(crate) state: JobState,
    pub(crate) sandbox: SandboxState,
    pub(crate) reason: Option<String>,
    pub(crate) requested_isolation: String,
    pub(crate) driver: Option<String>,
    pub(crate) runtime: Option<String>,
    /// The isolation that it got; no later sandbox of the job has a weaker one.
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
    /// The explanation of the result; `None` if there is none.
    pub(crate) explanation: Option<ExplanationRow>,
    /// Number of sandboxes that the job has had.
    pub(crate) incarnation: u32,
    /// Number of sandboxes that were made to run its process, without those made for an export.
    pub(crate) attempts: u32,
    /// True if its process may have begun in the present sandbox. It is never begun again then.
    pub(crate) begun: bool,
    /// The sandbox that it has now, whether its machine is made yet or dead already; none once that is stopped.
    pub(crate) sandbox_id: Option<SandboxId>,
    /// Rises whenever a server takes the job; fences every later write.
    pub(crate) epoch: u64,
    pub(crate) cancel_requested: bool,
    pub(crate) delete_requested: bool,
    /// True until nothing is left to do for it.
    pub(crate) open: bool,
    /// Last event of the guest that was committed.
    pub(crate) guest_sequence: u64,
    pub(crate) stdout: StreamRow,
    pub(crate) stderr: StreamRow,
    pub(crate) last_event: u64,
    pub(crate) revision: u64,
    /// Bytes sent to and received from the network, together.
    pub(crate) egress_bytes: u64,
    /// The progress of a task; `None` for other jobs.
    pub(crate) task: Option<TaskRow>,
    /// The recording of its desktop.
    pub(crate) recording: RecordingRow,
    /// Bytes of its journal, and of the texts behind it.
    pub(crate) journal_bytes: u64,
    /// Number of texts that are kept behind its journal.
    pub(crate) texts: u64,
    /// The position of its audit; `None` if nothing was recorded yet.
    pub(crate) audit: Option<AuditRow>,
    /// Bytes of its audit.
    pub(crate) audit_bytes: u64,
}

impl JobRow {
    /// Makes the row of a new job. The caller sets the fields that the request gives.
    pub(crate) fn new(id: JobId, kind: JobKind, limits: EffectiveLimits) -> Self {
        Self {
            number: 0,
            id,
            name: None,
            kind,
            limits,
            keep: false,
            created_ms: 0,
            state: JobState::Queued,
            sandbox: SandboxState::None,
            reason: None,
            requested_isolation: String::new(),
            driver: None,
            runtime: None,
            level: None,
            isolation_reason: None,
            started_ms: None,
            finished_ms: None,
            exit_code: None,
            failure: None,
            usage: None,
            outcome: None,
            artifact: None,
            explanation: None,
            incarnation: 0,
            attempts: 0,
            begun: false,
            sandbox_id: None,
            epoch: 0,
            cancel_requested: false,
            delete_requested: false,
            open: true,
            guest_sequence: 0,
            stdout: StreamRow::default(),
            stderr: StreamRow::default(),
            last_event: 0,
            revision: 0,
            egress_bytes: 0,
            task: None,
            recording: RecordingRow::default(),
            journal_bytes: 0,
            texts: 0,
            audit: None,
            audit_bytes: 0,
        }
    }

    /// Returns the fence that a write by the present owner must carry.
    pub(crate) fn fence(&self) -> JobFence {
        JobFence { job: self.id.clone(), epoch: self.epoch }
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

    /// Bytes that it takes on disk: artifact, output, recording, journal and audit.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let artifact = self.artifact.as_ref().map_or(0, |artifact| artifact.bytes);
        self.journal_bytes + self.audit_bytes + self.recording.bytes + artifact + self.stdout.bytes
            - self.stdout.dropped
            + self.stderr.bytes
            - self.stderr.dropped
    }

    /// Offset in the job's output of an offset in the present machine's: a task may have had machines before.
    pub(crate) fn host_offset(&self, stream: OutputStream, offset: u64) -> u64 {
        let base = self.task.as_ref().map(|task| task.output_base).unwrap_or_default();
        offset.saturating_add(match stream {
            OutputStream::Stdout => base.stdout,
            OutputStream::Stderr => base.stderr,
        })
    }

    /// Offsets in the present machine's output of offsets in the job's.
    pub(crate) fn guest_offsets(&self, offsets: OutputOffsets) -> OutputOffsets {
        let base = self.task.as_ref().map(|task| task.output_base).unwrap_or_default();
        OutputOffsets {
            stdout: offsets.stdout.saturating_sub(base.stdout),
            stderr: offsets.stderr.saturating_sub(base.stderr),
        }
    }

    /// Returns the offsets up to which output is committed.
    pub(crate) fn output_offsets(&self) -> OutputOffsets {
        OutputOffsets { stdout: self.stdout.bytes, stderr: self.stderr.bytes }
    }
}

/// The output of one stream, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StreamRow {
    /// Bytes that the job printed, including those that were dropped.
    pub(crate) bytes: u64,
    /// Bytes of the middle that were dropped.
    pub(crate) dropped: u64,
    /// Number of the next chunk.
    pub(crate) next_chunk: u64,
    /// First chunk of the tail that is still there, once something was dropped.
    pub(crate) tail_chunk: u64,
}

/// The recording of a desktop, in numbers. Its moments are events, its pictures are blobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecordingRow {
    /// Looks of the desktop that were recorded, one after another.
    pub(crate) moments: u64,
    /// Pictures, numbered from 1. A look that comes again has the picture of before.
    pub(crate) pictures: u64,
    /// Bytes of all pictures.
    pub(crate) bytes: u64,
}

/// The artifact of a job, whose blob is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArtifactRow {
    /// SHA-256 of the zip, in hexadecimal.
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
}

/// The explanation of a result, whose blob is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExplanationRow {
    /// What the project is, in a sentence or two.
    pub(crate) summary: String,
}

/// Proves that a writer owns the job: the store refuses other epochs than the present one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobFence {
    pub(crate) job: JobId,
    pub(crate) epoch: u64,
}

/// The signed head of a row.
pub(crate) fn audit_head(row: &JobRow) -> Option<AuditHead> {
    row.audit.as_ref().map(|audit| audit.signed_head(row.id.as_str()))
}
