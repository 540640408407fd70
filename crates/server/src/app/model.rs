//! Arguments and results of the use cases, beside the nouns of `job`.

use serde::Serialize;

use crate::auth::AccessScope;
use crate::job::{JobId, JobState, JobStatus};

/// A client's mark of a request, by which a retry is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The header's value.
    pub key: String,
    /// SHA-256 of the request: the same key with another request is an error.
    pub body_sha256: [u8; 32],
}

/// The result of `schedule`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// The job.
    pub id: JobId,
    /// Its state at that moment.
    pub state: JobState,
    /// True if an earlier request with the same key had made it.
    pub repeated: bool,
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
pub struct CommittedEvent {
    /// Its number.
    pub id: u64,
    /// `state`, `stdout`, `stderr`, `note`, `file` …
    pub kind: String,
    /// When it was committed.
    pub at_ms: i64,
    /// The payload. For output: `{"offset", "length", "text"}` with the bytes as lossy UTF-8.
    pub data: serde_json::Value,
}

/// What a ticket opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TicketTarget {
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

impl TicketTarget {
    /// The scope that its maker needs.
    pub fn scope(self) -> AccessScope {
        match self {
            Self::Download => AccessScope::ReadJobs,
            Self::Lab | Self::Desktop | Self::Pty | Self::Port(_) | Self::Origin(_) => {
                AccessScope::UseSandbox
            }
        }
    }
}

/// A driver as `/drivers` reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriverStatus {
    /// Its name.
    pub name: &'static str,
    /// The isolation of its sandboxes.
    pub isolation: sandyard_sandbox::driver::Isolation,
    /// The result of its trial; `None` while it is being tried for the first time.
    pub availability: Option<sandyard_sandbox::driver::Availability>,
    /// Progress of an image that is being made for it.
    pub making: Option<String>,
}
