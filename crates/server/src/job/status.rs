//! A job as its clients see it: the row, described.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use sandyard_sandbox::driver::{IsolationLevel, Usage};

use sandyard_api::JobFailure;

use super::brief::JobBrief;
use super::id::JobId;
use super::limits::EffectiveLimits;
use super::request::JobKind;
use super::state::{JobState, SandboxState};
use super::waiting::JobWait;
use crate::audit::AuditHead;

/// The status of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct FullJobStatus {
    /// Id of the job.
    pub id: JobId,
    /// A name for people.
    pub name: Option<String>,
    /// The kind of job.
    pub kind: JobKind,
    /// The state of the job.
    pub state: JobState,
    /// The state of its machine.
    pub sandbox: SandboxState,
    /// The reason for the state, in words.
    pub reason: Option<String>,
    /// What the job waits for; only while it is queued.
    pub waiting_for: Option<JobWait>,
    /// Isolation that was requested, and isolation that the job got.
    pub isolation: IsolationStatus,
    /// Milliseconds since the epoch, as all times here.
    pub created_at_ms: i64,
    /// Time of its first move to `running`.
    pub started_at_ms: Option<i64>,
    /// Time of its terminal state.
    pub finished_at_ms: Option<i64>,
    /// Time until which the sandbox of an ended job is kept, if nobody ends it earlier.
    pub sandbox_until_ms: Option<i64>,
    /// Time at which retention will remove it; set once it has ended.
    pub expires_at_ms: Option<i64>,
    /// Exit code of the job's process.
    pub exit_code: Option<i32>,
    /// The failure, with a stable code; `None` if the job succeeded or has not ended.
    pub error: Option<JobFailure>,
    /// The parts of the request that tell it from other jobs.
    pub brief: Arc<JobBrief>,
    /// Limits in effect.
    pub limits: EffectiveLimits,
    /// Usage of the machine: so far while it runs, of all its life afterwards.
    pub usage: Option<Usage>,
    /// Bytes through the egress gateway, in both directions.
    pub egress_bytes: u64,
    /// The question of a task; only while it waits.
    pub question: Option<String>,
    /// The summary that a task wrote at its end.
    pub summary: Option<String>,
    /// Tokens sent to models.
    pub tokens_in: u64,
    /// Tokens got from models.
    pub tokens_out: u64,
    /// Money spent on models whose price is known, in US dollars.
    pub usd: f64,
    /// What the result is, in a sentence or two, if it was explained.
    pub explanation: Option<String>,
    /// Moments of the desktop that were recorded.
    pub recorded_moments: u64,
    /// Bytes of their pictures.
    pub recorded_bytes: u64,
    /// True if the job has an artifact to download.
    pub download: bool,
    /// True if the sandbox outlives the job.
    pub keep: bool,
    /// Bytes of standard output, including dropped ones.
    pub stdout_bytes: u64,
    /// Bytes of standard error, including dropped ones.
    pub stderr_bytes: u64,
    /// True if the middle of an output was dropped.
    pub truncated: bool,
    /// End of standard output, at most 64 KiB; empty if not asked for.
    pub stdout_tail: String,
    /// End of standard error.
    pub stderr_tail: String,
    /// The signed end of its audit.
    pub audit: Option<AuditHead>,
    /// Rises with every committed change: an entity tag for pollers.
    pub revision: u64,
}

/// A status that readers share, with its JSON once one of them has rendered it.
#[derive(Debug)]
pub struct KnownStatus {
    status: FullJobStatus,
    /// The whole status as JSON, rendered by its first reader.
    pub rendered: OnceLock<Bytes>,
}

impl From<FullJobStatus> for KnownStatus {
    fn from(status: FullJobStatus) -> Self {
        Self { status, rendered: OnceLock::new() }
    }
}

impl Deref for KnownStatus {
    type Target = FullJobStatus;

    fn deref(&self) -> &FullJobStatus {
        &self.status
    }
}

/// The isolation of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolationStatus {
    /// The floor that the client asked for.
    pub requested: String,
    /// The driver that runs it, once chosen.
    pub effective: Option<String>,
    /// The level that the driver gives.
    pub level: Option<IsolationLevel>,
    /// The means of isolation, for example the container runtime.
    pub runtime: Option<String>,
    /// The reason for not using a stronger driver.
    pub reason: Option<String>,
}
