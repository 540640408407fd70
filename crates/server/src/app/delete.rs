//! Cancel, reply and delete: requests that reconcile carries out.

use std::time::Duration;

use super::model::JobStatus;
use super::status::WithOutput;
use super::{AppError, ErrorKind, Yard};
use crate::job_id::JobId;
use crate::states::JobState;

/// How long a deletion is waited for; it is certain before, and goes on after.
const DELETE_WAIT: Duration = Duration::from_secs(10);

impl Yard {
    /// Ends a job; harmless if it has ended. Answers the status after the request is committed.
    pub async fn cancel(&self, id: &JobId) -> Result<JobStatus, AppError> {
        let row = self.shared.store.request_cancel(id).await?.ok_or_else(AppError::unknown_job)?;
        self.describe(row, WithOutput::Without).await
    }

    /// Answers a waiting job; a conflict unless it waits.
    pub async fn reply(&self, id: &JobId, _text: String) -> Result<(), AppError> {
        let row = self.row(id).await?;
        let message = match row.state {
            JobState::Waiting => "the job's question can't be answered".to_owned(),
            state => format!("the job is {} and has asked nothing", state.as_str()),
        };
        Err(AppError::new(ErrorKind::Conflict, "not_waiting", message)
            .hint("only a task that asked something takes a reply"))
    }

    /// Removes a job and all that is of it. From then on it is unknown.
    pub async fn delete(&self, id: &JobId) -> Result<(), AppError> {
        let mut watch = self.shared.store.watch(id);
        self.shared.request_delete(id).await?.ok_or_else(AppError::unknown_job)?;
        self.shared.orphaned.notify_one();
        let gone = async {
            while self.shared.store.any_job(id).await?.is_some() {
                watch.changed().await;
            }
            Ok(())
        };
        tokio::time::timeout(DELETE_WAIT, gone).await.unwrap_or(Ok(()))
    }
}
