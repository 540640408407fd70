//! Readiness of the yard for new work, and its counters.

use super::access::require;
use super::{AppError, ErrorCode, Yard};
use crate::auth::{AccessScope, Caller};
use crate::job::SandboxPhase;

impl Yard {
    /// Fails with the reason why no work can be accepted. The answer does not depend on a caller.
    pub async fn ready(&self) -> Result<(), AppError> {
        if self.is_stopping() {
            return Err(AppError::new(ErrorCode::Stopping, "the server is stopping"));
        }
        if !self.context.admission.has_disk() {
            return Err(AppError::new(ErrorCode::DiskFull, "the yard's disk is full"));
        }
        // A read-only or failing disk has its space all the same.
        if let Err(reason) = self.context.disk_probe.check().await {
            let message = format!("the yard's disk can't be written: {reason}");
            return Err(AppError::new(ErrorCode::DiskUnavailable, message)
                .hint("look for a read-only file system or a failing disk below the data directory"));
        }
        // Any read will do: it fails if the store is broken.
        self.context.store.queued(0, 1).await?;
        Ok(())
    }

    /// True if a sandbox exists that no job keeps: the row of a job says `gone` before its sandbox is removed.
    pub async fn is_clearing(&self, caller: &Caller) -> Result<bool, AppError> {
        require(caller, AccessScope::ReadYard)?;
        for sandbox in self.context.store.sandboxes().await? {
            let kept = match &sandbox.job {
                Some(job) => self.context.store.job(job).await?.is_some_and(|job| job.keep),
                None => sandbox.phase == SandboxPhase::Parked,
            };
            if !kept {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Names of the models that tasks may use, the default first. Recordings that the server brings along are not among them.
    pub fn models(&self, caller: &Caller) -> Result<Vec<String>, AppError> {
        require(caller, AccessScope::ReadYard)?;
        let config = &self.context.config.models;
        Ok(config.default.iter().chain(&config.allowed).map(ToString::to_string).collect())
    }

    /// Prometheus text of the yard's counters; `http` may append its own.
    pub fn metrics(&self, caller: &Caller) -> Result<String, AppError> {
        require(caller, AccessScope::ReadYard)?;
        Ok(self.context.metrics.render(&self.context.store.counts(), self.context.admission.in_use()))
    }
}
