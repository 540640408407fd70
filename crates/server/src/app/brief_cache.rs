//! The briefs of jobs that were made: a request never changes, so neither does its brief.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::job::{JobBrief, JobId};

/// Bound on the memory of all briefs: tens of thousands of usual ones.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of a usual brief.
const BRIEF_BYTES: u64 = 256;

#[derive(Debug, Clone, Copy)]
pub(super) struct BriefWeighter;

impl Weighter<JobId, Arc<JobBrief>> for BriefWeighter {
    fn weight(&self, _id: &JobId, brief: &Arc<JobBrief>) -> u64 {
        brief.bytes()
    }
}

/// The briefs of jobs. An id is never used twice, so nothing here becomes wrong.
pub(super) struct BriefCache(pub(super) Cache<JobId, Arc<JobBrief>, BriefWeighter>);

impl Default for BriefCache {
    fn default() -> Self {
        let entries = usize::try_from(CACHE_BYTES / BRIEF_BYTES).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(entries, CACHE_BYTES, BriefWeighter))
    }
}

impl BriefCache {
    pub(super) fn keep(&self, id: &JobId, brief: JobBrief) {
        self.0.insert(id.clone(), Arc::new(brief));
    }
}
