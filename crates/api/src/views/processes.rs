//! Processes of a live sandbox.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A command, terminal, kernel or other program that was started in the sandbox from outside of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessView {
    /// Id of the process, for `GET /jobs/{id}/processes/{process}`; the job's own process is `main`.
    pub process: String,
    /// Process id inside the sandbox.
    pub pid: i32,
    /// Program and arguments, cut after 400 bytes.
    pub command: Vec<String>,
    /// True if the process has a terminal.
    pub terminal: bool,
    /// True until the process has ended.
    pub running: bool,
    /// 128 + the signal's number if a signal ended it; `null` while it runs.
    pub exit_code: Option<i32>,
    /// True if a time limit ended the process.
    pub timed_out: bool,
    /// Bytes of standard output so far.
    pub stdout_bytes: u64,
    /// Bytes of standard error so far.
    pub stderr_bytes: u64,
}

/// The processes of a job, newest first: all that run, and the last that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessListView {
    /// The processes.
    pub processes: Vec<ProcessView>,
}
