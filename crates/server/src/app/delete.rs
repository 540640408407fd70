//! Cancel and delete: requests that `lifecycle` carries out.

use std::time::{Duration, Instant};

use sandyard_protocol::ErrorChain;

use super::FullJobStatus;
use super::audit::entry;
use super::status::WithOutput;
use super::{AppError, JobAccess, Yard};
use crate::audit::AuditFacts;
use crate::auth::AccessScope;
use crate::job::JobId;
use crate::store::StoreError;
use crate::yard::JobVerdict;

/// Longest wait of a caller for a deletion. The deletion is committed before the wait, and continues after it.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for attempts to record the end of a job whose machine was ended first, and the time between two.
const RECORD_TIMEOUT: Duration = Duration::from_secs(3);
const RECORD_INTERVAL: Duration = Duration::from_millis(500);

impl Yard {
    /// Ends a job; harmless if it has ended. Returns the status after the request is committed.
    pub async fn cancel(&self, job: &JobAccess) -> Result<FullJobStatus, AppError> {
        job.require(AccessScope::WriteJobs)?;
        let entry = entry(AuditFacts::Cancel(job.caller().facts()));
        let asked = self.context.store.request_cancel(job.id(), entry.clone()).await;
        let row = match asked {
            Err(error) if error.is_transient() => {
                self.end_first(job.id(), &error, || {
                    self.context.store.request_cancel(job.id(), entry.clone())
                })
                .await?
            }
            asked => asked?,
        };
        self.describe(row.ok_or_else(AppError::unknown_job)?, WithOutput::Without).await
    }

    /// Ends the machine of a job whose end can't be recorded now, then tries to record it for a while. A request that can't be
    /// recorded is answered with an error, and its machine is dead all the same.
    async fn end_first<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        job: &JobId,
        error: &StoreError,
        record: impl Fn() -> F,
    ) -> Result<T, AppError> {
        tracing::warn!(%job, error = %ErrorChain(error), "ending a sandbox before its end is recorded");
        self.context.verdicts.pass(job, JobVerdict::Cancelled);
        let mut last = None;
        let deadline = Instant::now() + RECORD_TIMEOUT;
        while Instant::now() < deadline {
            tokio::time::sleep(RECORD_INTERVAL).await;
            match record().await {
                Err(error) if error.is_transient() => last = Some(error),
                recorded => return Ok(recorded?),
            }
        }
        // A job without a live machine has no owner that would take the verdict.
        if self.context.machines.get(job).is_none() {
            self.context.verdicts.forget(job);
        }
        let refusal = last.map_or_else(AppError::stopping, AppError::from);
        let message = "the sandbox of the job is ended, and the store can't record that at the moment";
        Err(AppError { message: message.to_owned(), ..refusal })
    }

    /// Removes a job, its sandbox, its workspace and its result. From then on it is unknown.
    pub async fn delete(&self, job: &JobAccess) -> Result<(), AppError> {
        job.require(AccessScope::WriteJobs)?;
        let id = job.id();
        // Before the request: the owner may remove the job before the first look at its row.
        let mut watch = self.context.store.watch(id);
        let entry = entry(AuditFacts::Delete(job.caller().facts()));
        let asked = self.context.request_delete(id, entry.clone()).await;
        let marked = match asked {
            Err(error) if error.is_transient() => {
                self.end_first(id, &error, || self.context.request_delete(id, entry.clone())).await?
            }
            asked => asked?,
        };
        marked.ok_or_else(AppError::unknown_job)?;
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
