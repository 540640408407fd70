//! Cache of the statuses of ended jobs.
//!
//! A job with nothing left to do can only be deleted or get another record of its audit. Writers in this process call
//! [`StatusCache::forget`] then. Writers in other processes can't, so every status carries the revision of its row, and a reader
//! asks `Store::is_current` before it trusts one; a store that only one process writes answers that without looking.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::job::{JobId, KnownStatus};

/// Bound on the cache's memory: about 16,000 statuses without output.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// Estimated bytes of a status and of its JSON, without the output, which both contain.
const STATUS_BYTES: u64 = 2048;
/// Longer output is read again each time: rare, and it would push out many others.
const OUTPUT_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone, Copy)]
struct StatusWeighter;

impl Weighter<JobId, Arc<KnownStatus>> for StatusWeighter {
    fn weight(&self, _id: &JobId, status: &Arc<KnownStatus>) -> u64 {
        STATUS_BYTES + 2 * output_bytes(status) as u64
    }
}

fn output_bytes(status: &KnownStatus) -> usize {
    status.stdout_tail.len() + status.stderr_tail.len()
}

/// Statuses of jobs that have nothing left to do.
pub(crate) struct StatusCache {
    statuses: Cache<JobId, Arc<KnownStatus>, StatusWeighter>,
    forgotten: AtomicU64,
}

/// Taken before a row is read, so that a deletion in between is noticed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusReadMark(u64);

impl Default for StatusCache {
    fn default() -> Self {
        let entries = usize::try_from(CACHE_BYTES / STATUS_BYTES).unwrap_or(usize::MAX);
        Self {
            statuses: Cache::with_weighter(entries, CACHE_BYTES, StatusWeighter),
            forgotten: AtomicU64::new(0),
        }
    }
}

impl StatusCache {
    /// Returns the cached status. The caller must check that it is current.
    pub(crate) fn get(&self, id: &JobId) -> Option<Arc<KnownStatus>> {
        self.statuses.get(id)
    }

    /// To be taken before the row of a status is read.
    pub(crate) fn before(&self) -> StatusReadMark {
        StatusReadMark(self.forgotten.load(Ordering::SeqCst))
    }

    /// Keeps the status of a job that is over, unless one was deleted since.
    pub(crate) fn keep(&self, before: StatusReadMark, status: &Arc<KnownStatus>) {
        if output_bytes(status) > OUTPUT_BYTES {
            return;
        }
        self.statuses.insert(status.id.clone(), Arc::clone(status));
        // Checked after the insert: a deletion between the read of the row and the insert has found nothing to remove.
        if self.forgotten.load(Ordering::SeqCst) != before.0 {
            self.statuses.remove(&status.id);
        }
    }

    /// To be called once the deletion of a job, or another record of its audit, is committed.
    pub(crate) fn forget(&self, id: &JobId) {
        // Counted before the removal, or `keep` could insert an old status between the two and see no change.
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.statuses.remove(id);
    }
}
