//! A job as its clients see it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{JobFailure, JobId, JobKind, Timestamp};

/// A job's state in four words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Queued or starting.
    Pending,
    /// Running, waiting for an answer, or finishing.
    Running,
    /// Succeeded.
    Complete,
    /// Failed, cancelled or timed out.
    Error,
}

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Accepted.
    Queued,
    /// Its sandbox is being made.
    Starting,
    /// At work.
    Running,
    /// It asked something; its clocks stand still.
    Waiting,
    /// Its work is over, the result is being taken out.
    Finishing,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Ended by request.
    Cancelled,
    /// Ended by its time limit.
    TimedOut,
}

impl JobState {
    /// All states, in the order of life.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Starting,
        Self::Running,
        Self::Waiting,
        Self::Finishing,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
    ];

    /// The state in four words.
    pub fn status(self) -> JobStatus {
        match self {
            Self::Queued | Self::Starting => JobStatus::Pending,
            Self::Running | Self::Waiting | Self::Finishing => JobStatus::Running,
            Self::Succeeded => JobStatus::Complete,
            Self::Failed | Self::Cancelled | Self::TimedOut => JobStatus::Error,
        }
    }

    /// Whether the job stays in this state for good.
    pub fn is_terminal(self) -> bool {
        matches!(self.status(), JobStatus::Complete | JobStatus::Error)
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Finishing => "finishing",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }

    /// The state of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// Whether a job has a machine now. Live tools need `live`, whatever the job's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// Not yet.
    None,
    /// Being made.
    Starting,
    /// There and connected.
    Live,
    /// No more.
    Gone,
}

impl SandboxState {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Starting => "starting",
            Self::Live => "live",
            Self::Gone => "gone",
        }
    }

    /// The state of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::Starting, Self::Live, Self::Gone].into_iter().find(|state| state.as_str() == name)
    }
}

/// What `POST /schedule` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleView {
    /// The new job, or the one made earlier with the same idempotency key.
    pub job_id: JobId,
    /// `pending`.
    pub status: JobStatus,
    /// Where to ask for its status.
    pub status_url: String,
    /// Where to follow it.
    pub events_url: String,
    /// Its desktop.
    pub desktop_url: String,
    /// Its JupyterLab.
    pub lab_url: String,
}

impl ScheduleView {
    /// The answer for a job.
    pub fn new(job_id: JobId, status: JobStatus) -> Self {
        Self {
            status,
            status_url: format!("/status/{job_id}"),
            events_url: format!("/jobs/{job_id}/events"),
            desktop_url: format!("/jobs/{job_id}/desktop/"),
            lab_url: format!("/jobs/{job_id}/lab"),
            job_id,
        }
    }
}

/// A job's status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// Its id.
    pub job_id: JobId,
    /// The name it was given.
    pub name: Option<String>,
    /// What kind of work it is.
    pub kind: JobKind,
    /// Its state in four words.
    pub status: JobStatus,
    /// Its state.
    pub state: JobState,
    /// Whether it has a machine.
    pub sandbox: SandboxState,
    /// Why it is in this state, in words.
    pub reason: Option<String>,
    /// What it asks, only while waiting.
    pub question: Option<String>,
    /// How strong its wall is.
    pub isolation: IsolationView,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When its work began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// When retention will remove it.
    pub expires_at: Option<Timestamp>,
    /// The last 64 KiB of standard output.
    pub stdout: String,
    /// The last 64 KiB of standard error.
    pub stderr: String,
    /// What its process exited with.
    pub exit_code: Option<i32>,
    /// Why it ended badly.
    pub error: Option<JobFailure>,
    /// What the agent says it did.
    pub summary: Option<String>,
    /// The result, for every ended job.
    pub download_url: Option<String>,
    /// What was built.
    pub explanation: Option<ExplanationView>,
    /// Its desktop.
    pub desktop_url: String,
    /// Its JupyterLab.
    pub lab_url: String,
    /// What it used.
    pub usage: UsageView,
    /// The signed end of its audit.
    pub audit: Option<AuditView>,
}

/// The end of a job's audit (`GET /jobs/{id}/audit`), signed by the server. Kept elsewhere, it proves that nothing before it was
/// changed later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditView {
    /// How many records there are.
    pub records: u64,
    /// SHA-256 of the last, in hexadecimal.
    pub head: String,
    /// Ed25519 over the job's id, the number of records and the head, in hexadecimal.
    pub signature: String,
    /// The public key of the server that signed it, in hexadecimal.
    pub key: String,
}

/// The isolation a job asked for and got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IsolationView {
    /// The floor: `any`, `container`, `gvisor`, `vm` or a driver's name.
    pub requested: String,
    /// The driver it runs on; `null` until that is chosen.
    pub effective: Option<String>,
    /// The wall that gives: `container`, `gvisor` or `vm`.
    #[schema(example = "container")]
    pub level: Option<String>,
    /// The means.
    #[schema(example = "namespaces+seccomp+landlock")]
    pub runtime: Option<String>,
    /// Why this one, and not a stronger one.
    pub reason: Option<String>,
}

/// Where the explanation of a result is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplanationView {
    /// In a few sentences.
    pub summary: String,
    /// The whole page.
    pub page_url: String,
    /// The diagram.
    pub diagram_url: String,
}

/// What a job used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageView {
    /// Processor time.
    pub cpu_s: f64,
    /// Highest memory.
    pub peak_memory_bytes: u64,
    /// Tokens sent to models.
    pub tokens_in: u64,
    /// Tokens got from models.
    pub tokens_out: u64,
    /// Money spent on models.
    pub usd: f64,
    /// Bytes that left for the network.
    pub egress_bytes: u64,
}

/// A page of jobs, newest first, each without its output (`stdout` and `stderr` are empty).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobListView {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// Pass it back for the next page; `null` on the last.
    pub cursor: Option<String>,
}

/// What a shell command did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShellView {
    /// Standard output; the middle is left out beyond 1 MiB, with a line that says how much.
    pub stdout: String,
    /// Standard error, bounded likewise.
    pub stderr: String,
    /// 128 + the signal's number if a signal ended it.
    pub exit_code: i32,
    /// Whether a time limit ended it.
    pub timed_out: bool,
    /// Bytes left out of `stdout` and `stderr` together, only if there are any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated_bytes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A link that works once, for 30 seconds, without a bearer key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TicketView {
    /// Relative to the server.
    pub url: String,
    /// When it stops working.
    pub expires_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_status_and_its_name_back() {
        let statuses: Vec<_> = JobState::ALL.map(|state| (state.as_str(), state.status())).to_vec();
        assert_eq!(statuses[0], ("queued", JobStatus::Pending));
        assert_eq!(statuses[3], ("waiting", JobStatus::Running));
        assert_eq!(statuses[8], ("timed_out", JobStatus::Error));
        for state in JobState::ALL {
            assert_eq!(JobState::parse(state.as_str()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }
}
