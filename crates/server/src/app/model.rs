//! Arguments and results of the use cases, beside the nouns of `job`.

use serde::Serialize;

use crate::auth::AccessScope;
use crate::job::{FullJobStatus, JobId, JobState};

/// A client's mark of a request, by which a retry is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Value of the header `Idempotency-Key`. Only its hash is stored.
    pub key: String,
    /// SHA-256 of the request: the same key with another request is an error.
    pub body_sha256: [u8; 32],
}

/// The result of `schedule`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// Id of the new job, or of the earlier one if `repeated`.
    pub id: JobId,
    /// Its state at that moment.
    pub state: JobState,
    /// True if an earlier request with the same key had made it.
    pub repeated: bool,
}

/// A page of the list, newest first, without output.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPage {
    /// Jobs of the page, newest first.
    pub jobs: Vec<FullJobStatus>,
    /// Start of the next page; `None` at the end.
    pub cursor: Option<String>,
}

/// One event of a job. Ids rise by one from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct CommittedEvent {
    /// Number of the event, from 1 without gaps.
    pub id: u64,
    /// `state`, `stdout`, `stderr`, `note`, `file` …
    pub kind: String,
    /// Time of the commit, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The payload. For output: `{"offset", "length", "text"}` with the bytes as lossy UTF-8.
    pub data: serde_json::Value,
}

/// The purpose of a ticket. A ticket opens nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TicketTarget {
    /// JupyterLab in the sandbox.
    Lab,
    /// The WebSocket of the desktop.
    Desktop,
    /// The WebSocket of a terminal.
    Pty,
    /// The download of the artifact.
    Download,
    /// The page and the diagram of the explanation.
    Explanation,
    /// A port of the sandbox.
    Port(u16),
    /// The origin of a port, where it is exchanged for a cookie.
    Origin(u16),
}

impl TicketTarget {
    /// The scope that its maker needs.
    pub fn scope(self) -> AccessScope {
        match self {
            Self::Download | Self::Explanation => AccessScope::ReadJobs,
            Self::Lab | Self::Desktop | Self::Pty | Self::Port(_) | Self::Origin(_) => {
                AccessScope::UseSandbox
            }
        }
    }
}

/// A driver as `/drivers` reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriverStatus {
    /// Name of the driver, as floors and rows use it.
    pub name: &'static str,
    /// The isolation of its sandboxes.
    pub isolation: sandyard_sandbox::driver::Isolation,
    /// The result of its trial; `None` while it is being tried for the first time.
    pub availability: Option<sandyard_sandbox::driver::Availability>,
    /// Progress of an image that is being made for it.
    pub making: Option<String>,
}
