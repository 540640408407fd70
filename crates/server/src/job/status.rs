//! A job as its clients see it: the row, described.

use std::ops::Deref;
use std::sync::OnceLock;

use bytes::Bytes;
use sandyard_sandbox::driver::{IsolationLevel, Usage};

use sandyard_api::JobFailure;

use super::id::JobId;
use super::request::JobKind;
use super::state::{JobState, SandboxState};
use crate::audit::AuditHead;

/// All that can be told of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobStatus {
    /// Its id.
    pub id: JobId,
    /// A name for people.
    pub name: Option<String>,
    /// What it is.
    pub kind: JobKind,
    /// Where it is in its life.
    pub state: JobState,
    /// Whether its machine is there.
    pub sandbox: SandboxState,
    /// Why it is where it is, in words.
    pub reason: Option<String>,
    /// What was asked for and what was got.
    pub isolation: IsolationStatus,
    /// Milliseconds since the epoch, as all times here.
    pub created_at_ms: i64,
    /// When it first ran.
    pub started_at_ms: Option<i64>,
    /// When it reached its last state.
    pub finished_at_ms: Option<i64>,
    /// When retention will remove it; set once it has ended.
    pub expires_at_ms: Option<i64>,
    /// Exit code of the job's process.
    pub exit_code: Option<i32>,
    /// Why it failed.
    pub error: Option<JobFailure>,
    /// What the machine used.
    pub usage: Option<Usage>,
    /// What went through the egress gateway, both ways.
    pub egress_bytes: u64,
    /// What a task asks; only while it waits.
    pub question: Option<String>,
    /// What a task says it did.
    pub summary: Option<String>,
    /// Tokens sent to models.
    pub tokens_in: u64,
    /// Tokens got from models.
    pub tokens_out: u64,
    /// Money spent on models whose price is known, in US dollars.
    pub usd: f64,
    /// Whether `download` has something to give.
    pub download: bool,
    /// Whether the sandbox outlives the job.
    pub keep: bool,
    /// How much came out, in bytes.
    pub stdout_bytes: u64,
    /// The same for standard error.
    pub stderr_bytes: u64,
    /// Whether the middle of an output was dropped.
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

/// A status that many may read, and what its reader made of it to show it once more.
#[derive(Debug)]
pub struct KnownStatus {
    status: JobStatus,
    /// The whole status as it was sent.
    pub rendered: OnceLock<Bytes>,
}

impl From<JobStatus> for KnownStatus {
    fn from(status: JobStatus) -> Self {
        Self { status, rendered: OnceLock::new() }
    }
}

impl Deref for KnownStatus {
    type Target = JobStatus;

    fn deref(&self) -> &JobStatus {
        &self.status
    }
}

/// Isolation as the status tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolationStatus {
    /// The floor.
    pub requested: String,
    /// The driver that runs it, once chosen.
    pub effective: Option<String>,
    /// The wall that it gives.
    pub level: Option<IsolationLevel>,
    /// Its means.
    pub runtime: Option<String>,
    /// Why not a stronger one.
    pub reason: Option<String>,
}
