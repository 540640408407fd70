//! What a live sandbox uses, from moment to moment.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{JobState, SandboxState, Timestamp};

/// One measurement of a live sandbox: an event of `GET /jobs/{id}/stats`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatsView {
    /// Time of the measurement.
    pub at: Timestamp,
    /// State of the job.
    pub state: JobState,
    /// State of the sandbox. The stream ends with the first measurement that is not `live`.
    pub sandbox: SandboxState,
    /// Processor time so far.
    pub cpu_s: f64,
    /// Processors in use since the measurement before, 1.0 for a whole one; `null` in the first.
    pub cpus: Option<f64>,
    /// Processors that the job may use.
    pub cpus_limit: f64,
    /// Memory in use now; `null` if the driver can't tell.
    pub memory_bytes: Option<u64>,
    /// Highest memory use.
    pub peak_memory_bytes: u64,
    /// Memory that the job may use.
    pub memory_limit_bytes: u64,
    /// Bytes sent to and received from the network.
    pub egress_bytes: u64,
    /// Tokens sent to models.
    pub tokens_in: u64,
    /// Tokens received from models.
    pub tokens_out: u64,
    /// Money spent on models.
    pub usd: f64,
    /// Seconds until the time limit ends the job; `null` if its time does not run.
    pub left_s: Option<u64>,
}
