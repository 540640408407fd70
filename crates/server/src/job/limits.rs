//! What a job may use, with all limits decided.

use sandyard_sandbox::driver::Limits;

/// How long a task may wait for answers in all: its machine is there meanwhile, and must end some day without a server too.
pub const LONGEST_WAITS_S: u64 = 7 * 24 * 3600;

/// Limits of a job: its machine's, and its time's.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct JobLimits {
    /// What the machine may use.
    pub machine: Limits,
    /// Wall-clock time, from the moment it runs.
    pub timeout_s: u64,
    /// Longest time without output, in seconds; `None` for no limit.
    pub idle_timeout_s: Option<u64>,
}
