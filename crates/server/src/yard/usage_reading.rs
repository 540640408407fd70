//! Asks drivers what the machines of jobs use.

use std::time::{Duration, Instant};

use sandyard_protocol::ErrorChain;
use sandyard_sandbox::driver::Usage;

use super::YardContext;
use crate::job::{JobRow, JobState, SandboxState};

/// Longest time that a status waits for a driver; a virtual machine answers from inside.
const STATUS_TIMEOUT: Duration = Duration::from_millis(300);
/// Longest time that the end of a job waits for a driver.
const END_TIMEOUT: Duration = Duration::from_secs(2);

impl YardContext {
    /// Asks for the usage of a job that runs, if the last answer is old. [`super::Usages::last`] has it then.
    pub(crate) async fn refresh_usage(&self, row: &JobRow) {
        let runs = row.state == JobState::Running && row.sandbox == SandboxState::Live;
        if runs
            && self.usages.is_due(&row.id, Instant::now())
            && let Ok(usage) = self.ask_usage(row, STATUS_TIMEOUT).await
        {
            self.usages.answered(&row.id, usage);
        }
    }

    /// Returns the usage of a job that ends: what its driver counts, else what was last known. The sandbox may be dead already.
    pub(crate) async fn final_usage(&self, row: &JobRow) -> Option<Usage> {
        let last = self.usages.take(&row.id);
        let answer = self.ask_usage(row, END_TIMEOUT).await;
        answer.inspect_err(|error| tracing::debug!(job = %row.id, error, "no usage")).ok().or(last)
    }

    async fn ask_usage(&self, row: &JobRow, timeout: Duration) -> Result<Usage, String> {
        let (driver, sandbox) = self.driver(row).zip(row.sandbox_id.as_ref()).ok_or("there is no sandbox")?;
        let answer = tokio::time::timeout(timeout, driver.usage(sandbox)).await;
        answer.map_err(|_| "it took too long")?.map_err(|error| ErrorChain(&error).to_string())
    }
}
