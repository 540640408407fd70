//! The status of a job.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::recording::RecordingView;
use crate::{JobFailure, JobId, JobKind, Timestamp};

/// The state of a job, reduced to four values.
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
    /// Accepted, not started.
    Queued,
    /// The sandbox is starting.
    Starting,
    /// The work runs.
    Running,
    /// The task asked a question; its time limits are paused.
    Waiting,
    /// The work ended; the result is being saved.
    Finishing,
    /// The job ended successfully.
    Succeeded,
    /// The job failed.
    Failed,
    /// A client cancelled the job.
    Cancelled,
    /// A time limit ended the job.
    TimedOut,
}

impl JobState {
    /// Every state, in the order of a job's life.
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

    /// Returns the status of the state.
    pub fn status(self) -> JobStatus {
        match self {
            Self::Queued | Self::Starting => JobStatus::Pending,
            Self::Running | Self::Waiting | Self::Finishing => JobStatus::Running,
            Self::Succeeded => JobStatus::Complete,
            Self::Failed | Self::Cancelled | Self::TimedOut => JobStatus::Error,
        }
    }

    /// True if a job never leaves this state.
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

    /// Returns the state of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// State of a job's sandbox. Tools need `live`, whatever the state of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// No sandbox yet.
    None,
    /// The sandbox is starting.
    Starting,
    /// The sandbox runs and is connected.
    Live,
    /// The sandbox was removed.
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

    /// Returns the state of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::Starting, Self::Live, Self::Gone].into_iter().find(|state| state.as_str() == name)
    }
}

/// Response of `POST /schedule`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleView {
    /// Id of the new job, or of the earlier job with the same idempotency key.
    pub job_id: JobId,
    /// `pending`.
    pub status: JobStatus,
    /// Path of the status.
    pub status_url: String,
    /// Path of the event stream.
    pub events_url: String,
    /// Path of the desktop.
    pub desktop_url: String,
    /// Path of JupyterLab.
    pub lab_url: String,
}

impl ScheduleView {
    /// Returns the response for a job.
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
    /// Id of the job.
    pub job_id: JobId,
    /// Name of the job.
    pub name: Option<String>,
    /// Kind of the job.
    pub kind: JobKind,
    /// The first 200 characters of the task or code; in a list, the first line of them.
    #[serde(default)]
    pub input: Option<String>,
    /// Status of the job.
    pub status: JobStatus,
    /// State of the job.
    pub state: JobState,
    /// State of the sandbox.
    pub sandbox: SandboxState,
    /// Reason for the state, in words.
    pub reason: Option<String>,
    /// What a queued job waits for; `null` in every other state.
    pub waiting_for: Option<WaitingView>,
    /// Question of the task, only while it waits.
    pub question: Option<String>,
    /// Isolation of the sandbox.
    pub isolation: IsolationView,
    /// Time of acceptance.
    pub created_at: Timestamp,
    /// Start of the work.
    pub started_at: Option<Timestamp>,
    /// End of the job.
    pub finished_at: Option<Timestamp>,
    /// Until when the sandbox of an ended job with `keep` stays. `POST /jobs/{id}/cancel` removes it earlier.
    pub sandbox_until: Option<Timestamp>,
    /// When the job will be removed.
    pub expires_at: Option<Timestamp>,
    /// The last 64 KiB of standard output.
    pub stdout: String,
    /// The last 64 KiB of standard error.
    pub stderr: String,
    /// Exit code of the job's process.
    pub exit_code: Option<i32>,
    /// Reason of a failure.
    pub error: Option<JobFailure>,
    /// Summary of the agent.
    pub summary: Option<String>,
    /// Path of the result, for every ended job.
    pub download_url: Option<String>,
    /// Explanation of the result.
    pub explanation: Option<ExplanationView>,
    /// Recording of the desktop; `null` if nothing was recorded.
    pub recording: Option<RecordingView>,
    /// Path of the desktop.
    pub desktop_url: String,
    /// Path of JupyterLab.
    pub lab_url: String,
    /// Limits in effect.
    #[serde(default)]
    pub limits: LimitsView,
    /// Hosts that the job may reach.
    #[serde(default)]
    pub egress: Vec<String>,
    /// Names of the environment variables of the request; values may be secrets.
    #[serde(default)]
    pub env_names: Vec<String>,
    /// Model of a task.
    #[serde(default)]
    pub model: Option<String>,
    /// Resources that the job used, so far while it runs.
    pub usage: UsageView,
    /// Signed head of the audit.
    pub audit: Option<AuditView>,
}

/// Limits of a job: those of the request, and the server's own for the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitsView {
    /// Number of processors.
    pub cpus: f64,
    /// Memory of the job.
    pub memory_mib: u64,
    /// Writable disk.
    pub disk_mib: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Mebibytes read from disks in a second, and written to them.
    pub io_mib_s: u64,
    /// Wall-clock time from the start of the work. `POST /jobs/{id}/extend` raises it.
    pub timeout_s: u64,
    /// Time without output; `null` for no limit.
    pub idle_timeout_s: Option<u64>,
}

/// What a queued job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingView {
    /// The missing resource.
    pub resource: WantedResource,
    /// The wait in words, with figures.
    #[schema(example = "its sandbox needs 4096 MiB of memory, and 1024 MiB are free")]
    pub message: String,
}

/// A resource that a queued job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WantedResource {
    /// The server allows no more sandboxes at once.
    Sandboxes,
    /// Too little memory is free.
    Memory,
    /// Too little disk is free.
    Disk,
    /// No driver can run it yet.
    Driver,
    /// Other jobs start first.
    Turn,
}

/// The signed head of a job's audit (`GET /jobs/{id}/audit`). A copy outside the server proves that no earlier record was
/// changed later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditView {
    /// Number of records.
    pub records: u64,
    /// SHA-256 of the last record, in hexadecimal.
    pub head: String,
    /// Ed25519 over the job's id, the number of records and the head, in hexadecimal.
    pub signature: String,
    /// Public key of the server, in hexadecimal.
    pub key: String,
}

/// The requested and the effective isolation of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IsolationView {
    /// Weakest acceptable isolation: `any`, `container`, `gvisor`, `vm` or a driver's name.
    pub requested: String,
    /// Driver of the sandbox; `null` until it is chosen.
    pub effective: Option<String>,
    /// Level of the driver: `container`, `gvisor` or `vm`.
    #[schema(example = "container")]
    pub level: Option<String>,
    /// Mechanisms that isolate the sandbox.
    #[schema(example = "namespaces+seccomp+landlock")]
    pub runtime: Option<String>,
    /// Reason for this driver.
    pub reason: Option<String>,
}

/// Addresses of the explanation of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplanationView {
    /// Summary in a few sentences.
    pub summary: String,
    /// Path of the whole page.
    pub page_url: String,
    /// Path of the diagram.
    pub diagram_url: String,
}

/// Resources that a job used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageView {
    /// Processor time.
    pub cpu_s: f64,
    /// Highest memory use.
    pub peak_memory_bytes: u64,
    /// Tokens sent to models.
    pub tokens_in: u64,
    /// Tokens received from models.
    pub tokens_out: u64,
    /// Money spent on models.
    pub usd: f64,
    /// Bytes sent to the network.
    pub egress_bytes: u64,
}

/// A page of jobs, newest first, each without its output (`stdout` and `stderr` are empty).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobListView {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// Cursor of the next page; `null` on the last page.
    pub cursor: Option<String>,
}

/// The result of a shell command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShellView {
    /// Id of the process, for `GET /jobs/{id}/processes/{process}`.
    pub process: String,
    /// Standard output; the middle is left out beyond 1 MiB, with a line that says how much.
    pub stdout: String,
    /// Standard error, bounded likewise.
    pub stderr: String,
    /// 128 + the signal's number if a signal ended it.
    pub exit_code: i32,
    /// True if a time limit ended the command.
    pub timed_out: bool,
    /// Bytes dropped from `stdout` and `stderr` together, only if there are any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated_bytes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A link that works once, within 30 seconds, without a bearer key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TicketView {
    /// Relative to the server.
    pub url: String,
    /// Time after which the link is invalid.
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
