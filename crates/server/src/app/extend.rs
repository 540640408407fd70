//! Extend: more time for a job that has begun or waits.

use super::status::WithOutput;
use super::{AppError, ErrorCode, FullJobStatus, JobAccess, JobState, Yard};
use crate::auth::AccessScope;
use crate::job::Change;
use crate::lifecycle::time_used;

/// Attempts to write the new limit while the job changes hands.
const ATTEMPTS: usize = 5;

impl Yard {
    /// Lets a job run for this many seconds from now on. Never shortens its time. Returns the status with the new limit.
    pub async fn extend(&self, job: &JobAccess, timeout_s: u64) -> Result<FullJobStatus, AppError> {
        job.require(AccessScope::WriteJobs)?;
        let mut attempts = ATTEMPTS;
        loop {
            let row = self.row(job.id()).await?;
            if row.state.is_terminal() || row.state == JobState::Finishing {
                let message = format!("the job is {}, and its time can't be extended", row.state.as_str());
                return Err(AppError::new(ErrorCode::AlreadyEnded, message));
            }
            let used = time_used(&row, self.context.clock).as_secs();
            let total_s = used.saturating_add(timeout_s);
            let most_s = self.context.config.greatest_limits.timeout_s;
            if total_s > most_s {
                let message = format!(
                    "the job would run for {total_s} s in total, and a job of this server runs for {most_s} s at most"
                );
                return Err(AppError::new(ErrorCode::LimitOutOfRange, message));
            }
            attempts -= 1;
            // The owner of the job is woken by the commit, and sets the clocks of the sandbox.
            match self
                .context
                .store
                .commit(&row.fence(), vec![Change::TimeLimit { timeout_s: total_s }])
                .await
            {
                Err(error) if error.is_stale() && attempts > 0 => {}
                written => return self.describe(written?, WithOutput::Without).await,
            }
        }
    }
}
