//! The changes that claim a queued job.

use sandyard_protocol::Secret;
use sandyard_sandbox::driver::Driver;

use super::YardContext;
use crate::job::{Change, JobRow, JobState, Purpose, RandomError, SandboxRow, random_sandbox_id};
use crate::store::JobClaim;

impl YardContext {
    /// Returns the claim of a queued job for this server: its driver, its first sandbox and its state, all at once.
    pub(crate) fn claim(
        &self,
        row: &JobRow,
        driver: &dyn Driver,
        reason: Option<String>,
    ) -> Result<JobClaim, RandomError> {
        let isolation = driver.isolation();
        let changes = vec![
            Change::Isolation { driver: driver.name().to_owned(), isolation, reason },
            self.new_sandbox(row, driver, Purpose::Run)?,
            Change::Move { to: JobState::Starting, reason: None },
        ];
        Ok(self.claim_with(changes))
    }

    /// Returns a claim for this server with other changes.
    pub(crate) fn claim_with(&self, changes: Vec<Change>) -> JobClaim {
        JobClaim { owner: self.owner.clone(), ttl_ms: self.ttl_ms(), changes }
    }

    /// Returns the change that gives a job another sandbox, which this server holds.
    pub(crate) fn new_sandbox(
        &self,
        row: &JobRow,
        driver: &dyn Driver,
        purpose: Purpose,
    ) -> Result<Change, RandomError> {
        let mut secret = [0; 32];
        // A new secret for each sandbox: a guest of an earlier one can't prove itself as the new one.
        getrandom::fill(&mut secret)?;
        let (id, driver) = (random_sandbox_id()?, driver.name().to_owned());
        let sandbox = SandboxRow::for_job(id, driver, Secret::new(secret), row.limits.machine);
        let sandbox = SandboxRow { owner: Some(self.owner.clone()), ..sandbox };
        Ok(Change::NewSandbox { sandbox: Box::new(sandbox), purpose })
    }
}
