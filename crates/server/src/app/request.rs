//! The request of a job, for those who want to send it again.

use std::collections::BTreeMap;

use super::{AppError, JobAccess, NewJob, Yard};
use crate::auth::AccessScope;

impl Yard {
    /// Returns the request as it was stored, without its files and with an empty environment.
    pub async fn request(&self, job: &JobAccess) -> Result<NewJob, AppError> {
        job.require(AccessScope::WriteJobs)?;
        let stored = self.context.store.request(job.id()).await?.ok_or_else(AppError::unknown_job)?;
        Ok(NewJob { env: BTreeMap::new(), ..stored.job })
    }
}
