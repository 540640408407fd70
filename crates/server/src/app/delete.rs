//! Cancel and delete: requests that reconcile carries out.

use std::time::Duration;

use super::JobStatus;
use super::status::WithOutput;
use super::{AppError, Yard};
use crate::audit::AuditFacts;
use crate::job::JobId;

/// How long a deletion is waited for; it is certain before, and goes on after.
const DELETE_WAIT: Duration = Duration::from_secs(10);

impl Yard {
    /// Ends a job; harmless if it has ended. Answers the status after the request is committed.
    pub async fn cancel(&self, id: &JobId) -> Result<JobStatus, AppError> {
        let entry = self.entry(AuditFacts::Cancel(self.caller.facts()));
        let row = self.context.store.request_cancel(id, entry).await?.ok_or_else(AppError::unknown_job)?;
        self.describe(row, WithOutput::Without).await
    }

    /// Removes a job and all that is of it. From then on it is unknown.
    pub async fn delete(&self, id: &JobId) -> Result<(), AppError> {
        let mut watch = self.context.store.watch(id);
        let entry = self.entry(AuditFacts::Delete(self.caller.facts()));
        self.context.request_delete(id, entry).await?.ok_or_else(AppError::unknown_job)?;
        self.context.orphaned.notify_one();
        let gone = async {
            while self.context.store.any_job(id).await?.is_some() {
                watch.changed().await;
            }
            Ok(())
        };
        tokio::time::timeout(DELETE_WAIT, gone).await.unwrap_or(Ok(()))
    }
}
