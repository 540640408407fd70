//! Audit entries by the owner of a job: a gateway records an act before it does it for the job.

use std::fmt;
use std::sync::Arc;

use sandyard_protocol::ErrorChain;

use crate::audit::AuditEntry;
use crate::job::JobFence;
use crate::store::{Store, StoreError};

/// The audit of one job, written under the owner's fence.
#[derive(Clone)]
pub(crate) struct OwnerAudit {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fence: JobFence,
}

impl OwnerAudit {
    /// Appends entries. Fails with [`StoreError::Stale`] if another server owns the job by now.
    pub(crate) async fn record(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        let written = self.store.note(&self.fence.job, Some(self.fence.epoch), entries).await;
        match written {
            Ok(Some(_)) => Ok(()),
            // The job is being deleted. Without a record the act must not happen.
            Ok(None) => Err(StoreError::Stale(self.fence.job.clone())),
            Err(error) => {
                tracing::warn!(job = %self.fence.job, error = %ErrorChain(&error), "the audit can't be written");
                Err(error)
            }
        }
    }
}

impl fmt::Debug for OwnerAudit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OwnerAudit({})", self.fence.job)
    }
}
