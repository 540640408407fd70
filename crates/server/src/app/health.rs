//! Readiness and counters.

use super::access::require;
use super::{AppError, ErrorCode, Yard};
use crate::auth::{AccessScope, Caller};

impl Yard {
    /// Rejects with the reason why no work can be accepted. The answer is the same for everybody, so it needs no caller.
    pub async fn ready(&self) -> Result<(), AppError> {
        if self.is_stopping() {
            return Err(AppError::new(ErrorCode::Stopping, "the server is stopping"));
        }
        if !self.context.admission.has_disk() {
            return Err(AppError::new(ErrorCode::DiskFull, "the yard's disk is full"));
        }
        self.context.store.queued(0, 1).await?;
        Ok(())
    }

    /// Prometheus text of the yard's counters; `http` may append its own.
    pub fn metrics(&self, caller: &Caller) -> Result<String, AppError> {
        require(caller, AccessScope::ReadYard)?;
        Ok(self.context.metrics.render(&self.context.store.counts(), self.context.admission.in_use()))
    }
}
