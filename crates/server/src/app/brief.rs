//! The briefs of jobs, for the status.
//!
//! The request is sealed in the store and may be megabytes long. It never changes, so its brief is made once and kept in memory.

use std::sync::Arc;

use super::{AppError, Yard};
use crate::job::{JobBrief, JobId};

impl Yard {
    /// The brief of a job; an empty one if its request is gone.
    pub(super) async fn brief(&self, id: &JobId) -> Result<Arc<JobBrief>, AppError> {
        if let Some(known) = self.briefs.0.get(id) {
            return Ok(known);
        }
        let Some(stored) = self.context.store.request(id).await? else { return Ok(Arc::default()) };
        let brief = Arc::new(JobBrief::of(&stored.job));
        self.briefs.0.insert(id.clone(), Arc::clone(&brief));
        Ok(brief)
    }
}
