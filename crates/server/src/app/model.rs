//! The nouns of the use cases: what a job is asked to be, and what can be told of it.
//!
//! `http` turns the API's requests into these and these into the API's views; nothing here knows HTTP.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::OnceLock;

use bytes::Bytes;
use sandyard_protocol::{JobWork, Language, TaskBudget};
use sandyard_sandbox::driver::{IsolationLevel, Usage};
use serde::{Deserialize, Serialize};

use crate::audit::Head;
use crate::job_id::JobId;
pub use crate::states::{JobState, SandboxState};
pub use sandyard_api::{FailureCode, GitSource, JobFailure, JobKind, OnSilence, RequestedLimits};

/// A job to be scheduled; well-formed by the API's rules. Limits and isolation are checked by `schedule`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    /// What it is.
    pub kind: JobKind,
    /// The script or the task; empty for a session.
    pub code: String,
    /// A name for people.
    pub name: Option<String>,
    /// Files put into the workspace before the start; stored beside the rest of the request.
    #[serde(skip)]
    pub files: Vec<InputFile>,
    /// Environment of everything that runs.
    pub env: BTreeMap<String, String>,
    /// How strong the wall must be.
    pub isolation: Floor,
    /// How much it may use; what is not given comes from the configuration.
    pub limits: RequestedLimits,
    /// Whether the sandbox stays up after the end.
    pub keep: bool,
    /// Hosts it may reach.
    #[serde(default)]
    pub egress: Vec<String>,
    /// A repository that is cloned into the workspace before its files are written.
    #[serde(default)]
    pub git: Option<GitSource>,
    /// How a task is worked on.
    #[serde(default)]
    pub task: TaskOptions,
}

/// How a task is worked on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskOptions {
    /// Which model; the yard's own if none is named. Always named in a stored job.
    pub model: Option<String>,
    /// What it may spend.
    pub budget: TaskBudget,
    /// How long a question waits for its answer. Always there in a stored job.
    pub ask_timeout_s: Option<u64>,
    /// What becomes of a question that nobody answers.
    #[serde(default)]
    pub on_silence: OnSilence,
}

impl NewJob {
    /// What the guest is to do.
    pub(crate) fn work(&self) -> JobWork {
        match self.kind {
            JobKind::Shell => JobWork::Shell { code: self.code.clone() },
            JobKind::Gui => JobWork::Gui { code: self.code.clone() },
            JobKind::Session => JobWork::Session,
            JobKind::Python => self.in_kernel(Language::Python),
            JobKind::Typescript => self.in_kernel(Language::Typescript),
            JobKind::Task => JobWork::Task,
        }
    }

    fn in_kernel(&self, language: Language) -> JobWork {
        JobWork::Kernel { language, code: self.code.clone() }
    }
}

/// A file of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Relative to the workspace.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The weakest isolation a job accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Floor {
    /// Whatever this machine has.
    Any,
    /// At least this level.
    Level(IsolationLevel),
    /// Exactly this driver.
    Driver(String),
}

impl Floor {
    /// As it was asked for.
    pub fn as_text(&self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::Level(level) => level.as_str().to_owned(),
            Self::Driver(name) => name.clone(),
        }
    }
}

/// The client's promise that a repeat is a repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The header's value.
    pub key: String,
    /// SHA-256 of everything that makes the request what it is.
    pub body_sha256: [u8; 32],
}

/// What `schedule` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// The job.
    pub id: JobId,
    /// Its state at that moment.
    pub state: JobState,
    /// Whether an earlier request with the same key had made it.
    pub repeated: bool,
}

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
    pub audit: Option<Head>,
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

/// Which jobs to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only these states; empty means all.
    pub states: Vec<JobState>,
    /// Only this kind.
    pub kind: Option<JobKind>,
}

/// A page of the list, newest first, without output.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobStatus>,
    /// Where the next page begins; `None` at the end.
    pub cursor: Option<String>,
}

/// One event of a job. Ids rise by one from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct JobEvent {
    /// Its number.
    pub id: u64,
    /// `state`, `stdout`, `stderr`, `note`, `file` …
    pub kind: String,
    /// When it was committed.
    pub at_ms: i64,
    /// What it says. For output: `{"offset", "length", "text"}` with the bytes as lossy UTF-8.
    pub data: serde_json::Value,
}

/// What a ticket is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TicketPurpose {
    /// JupyterLab.
    Lab,
    /// The desktop.
    Desktop,
    /// A terminal.
    Pty,
    /// The artifact.
    Download,
    /// A port of the sandbox.
    Port(u16),
    /// The origin of a port, where it is exchanged for a cookie.
    Origin(u16),
}

/// A driver as `/drivers` tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriverStatus {
    /// Its name.
    pub name: &'static str,
    /// What its sandboxes get.
    pub isolation: sandyard_sandbox::driver::Isolation,
    /// Whether it works here; `None` while it is being tried for the first time.
    pub availability: Option<sandyard_sandbox::driver::Availability>,
    /// How far an image is that is being made for it.
    pub making: Option<String>,
}
