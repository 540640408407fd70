//! What the use cases take and return, beside the nouns of `job`.

use serde::Serialize;

use crate::job::{JobId, JobState, JobStatus};

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
