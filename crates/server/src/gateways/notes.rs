//! Notes in a job's audit by its owner: before a gateway does something for the job.

use std::fmt;
use std::sync::Arc;

use crate::audit::AuditEntry;
use crate::error_chain::chain;
use crate::job::Fence;
use crate::store::{Store, StoreError};

/// One job's audit, as its present owner writes it.
#[derive(Clone)]
pub(crate) struct OwnerNotes {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fence: Fence,
}

impl OwnerNotes {
    /// Writes entries; whoever is no longer the owner can't.
    pub(crate) async fn note(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        let written = self.store.note(&self.fence.job, Some(self.fence.epoch), entries).await;
        match written {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(StoreError::Stale(self.fence.job.clone())),
            Err(error) => {
                tracing::warn!(job = %self.fence.job, error = %chain(&error), "the audit can't be written");
                Err(error)
            }
        }
    }
}

impl fmt::Debug for OwnerNotes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OwnerNotes({})", self.fence.job)
    }
}
