//! Measurements of a live sandbox.

use sandyard_sandbox::driver::Usage;

use super::{AppError, JobAccess, JobState, SandboxState, Yard};
use crate::auth::AccessScope;
use crate::gateways::model::Money;
use crate::job::EffectiveLimits;
use crate::lifecycle::time_used;

/// What a job uses at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct JobMeasure {
    /// Time of the measurement, in milliseconds since the epoch.
    pub at_ms: i64,
    /// State of the job.
    pub state: JobState,
    /// State of its sandbox.
    pub sandbox: SandboxState,
    /// Usage of the sandbox so far.
    pub usage: Usage,
    /// Limits in effect.
    pub limits: EffectiveLimits,
    /// Bytes through the egress gateway.
    pub egress_bytes: u64,
    /// Tokens sent to models.
    pub tokens_in: u64,
    /// Tokens got from models.
    pub tokens_out: u64,
    /// Money spent on models, in US dollars.
    pub usd: f64,
    /// Seconds until the time limit; `None` while the job's time does not run.
    pub left_s: Option<u64>,
}

impl Yard {
    /// Measures a job. One without a live sandbox has the figures of its end.
    pub async fn measure(&self, job: &JobAccess) -> Result<JobMeasure, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        let clock = self.context.clock;
        self.context.refresh_usage(&row).await;
        let measured = self.context.usages.last(&row.id);
        let left = row.limits.timeout_s.saturating_sub(time_used(&row, clock).as_secs());
        let spent = row.task.as_ref().map(|task| task.spent).unwrap_or_default();
        Ok(JobMeasure {
            at_ms: clock.unix_ms(),
            state: row.state,
            sandbox: row.sandbox,
            usage: row.usage.or(measured).unwrap_or_default(),
            limits: row.limits,
            egress_bytes: row.egress_bytes,
            tokens_in: spent.tokens_in,
            tokens_out: spent.tokens_out,
            usd: Money::from_units(spent.money).usd(),
            left_s: (row.state == JobState::Running).then_some(left),
        })
    }
}
