//! Cancel and delete: requests that `lifecycle` carries out.

use std::time::Duration;

use super::JobStatus;
use super::audit::entry;
use super::status::WithOutput;
use super::{AppError, JobAccess, Yard};
use crate::audit::AuditFacts;
use crate::auth::AccessScope;

/// Longest wait of a caller for a deletion. The deletion is committed before the wait, and continues after it.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);

impl Yard {
    /// Ends a job; harmless if it has ended. Returns the status after the request is committed.
    pub async fn cancel(&self, job: &JobAccess) -> Result<JobStatus, AppError> {
        job.require(AccessScope::WriteJobs)?;
        let entry = entry(AuditFacts::Cancel(job.caller().facts()));
        let row =
            self.context.store.request_cancel(job.id(), entry).await?.ok_or_else(AppError::unknown_job)?;
        self.describe(row, WithOutput::Without).await
    }

    /// Removes a job, its sandbox, its workspace and its result. From then on it is unknown.
    pub async fn delete(&self, job: &JobAccess) -> Result<(), AppError> {
        job.require(AccessScope::WriteJobs)?;
        let id = job.id();
        // Before the request: the owner may remove the job before the first look at its row.
        let mut watch = self.context.store.watch(id);
        let entry = entry(AuditFacts::Delete(job.caller().facts()));
        self.context.request_delete(id, entry).await?.ok_or_else(AppError::unknown_job)?;
        // After the commit: a closed job has no owner, and the loop finds it only once it is marked.
        self.context.orphaned.notify_one();
        let gone = async {
            while self.context.store.any_job(id).await?.is_some() {
                watch.changed().await;
            }
            Ok(())
        };
        tokio::time::timeout(DELETE_TIMEOUT, gone).await.unwrap_or(Ok(()))
    }
}
