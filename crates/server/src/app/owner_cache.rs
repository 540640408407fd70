//! The owners of jobs, which every request about a job asks for.

use quick_cache::sync::Cache;

use crate::auth::OwnerAccount;
use crate::job::JobId;

/// Owners that are remembered, so that a busy job costs no read of its row: more than a yard runs at once.
const REMEMBERED_OWNERS: usize = 4096;

/// The owners of jobs. A job keeps its owner for life and an id is never used twice, so nothing here becomes wrong; whether
/// the job still exists is for the use case to find out.
pub(super) struct OwnerCache(pub(super) Cache<JobId, OwnerAccount>);

impl Default for OwnerCache {
    fn default() -> Self {
        Self(Cache::new(REMEMBERED_OWNERS))
    }
}
