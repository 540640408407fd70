//! Limits of a job, with all defaults filled in.

use sandyard_sandbox::driver::Limits;

/// Longest time that a task may wait for answers in total. Its machine exists meanwhile, and must end even without a server.
pub const LONGEST_WAITS_S: u64 = 7 * 24 * 3600;

/// Limits of a job: its machine's, and its time's.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EffectiveLimits {
    /// Limits of the machine.
    pub machine: Limits,
    /// Wall-clock time in seconds, from the moment the job runs, without waits for people.
    pub timeout_s: u64,
    /// Longest time without output, in seconds; `None` for no limit.
    pub idle_timeout_s: Option<u64>,
    /// Size of the recording of the desktop, in MiB; 0 records nothing. Jobs of earlier releases have none.
    #[serde(default)]
    pub recording_mib: u64,
}
