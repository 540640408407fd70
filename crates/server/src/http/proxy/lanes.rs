//! The bound on connections to ports of one job. The job's tools and events share its pipe, so pages must leave streams to
//! them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::job::JobId;

/// Half of the streams of a pipe; a browser opens six connections to an origin, and a WebSocket or two.
const MAX_LANES_PER_JOB: usize = 256;

/// The lanes of all jobs. Unused ones are removed.
#[derive(Debug, Default)]
pub(in crate::http) struct Lanes(Mutex<HashMap<JobId, Weak<Semaphore>>>);

/// Room for one connection, released when dropped.
#[derive(Debug)]
pub(super) struct Lane {
    _permit: OwnedSemaphorePermit,
}

impl Lanes {
    /// Room for one more connection; `None` if the job has too many.
    pub(super) fn enter(&self, job: &JobId) -> Option<Lane> {
        let semaphore = self.of(job);
        semaphore.try_acquire_owned().ok().map(|permit| Lane { _permit: permit })
    }

    fn of(&self, job: &JobId) -> Arc<Semaphore> {
        let mut known = self.0.lock();
        // Weak: the lanes in use hold the semaphore, so a job without connections leaves nothing but an entry to sweep.
        if let Some(semaphore) = known.get(job).and_then(Weak::upgrade) {
            return semaphore;
        }
        known.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(MAX_LANES_PER_JOB));
        known.insert(job.clone(), Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w20_a_job_has_so_many_lanes_and_gets_them_back() {
        let lanes = Lanes::default();
        let (job, other) = (crate::job::random_id().unwrap(), crate::job::random_id().unwrap());
        let taken: Vec<_> = (0..MAX_LANES_PER_JOB).map(|_| lanes.enter(&job).unwrap()).collect();
        assert!(lanes.enter(&job).is_none());
        assert!(lanes.enter(&other).is_some(), "another job has its own");
        drop(taken);
        assert!(lanes.enter(&job).is_some());
        assert_eq!(lanes.0.lock().len(), 1, "jobs without connections are forgotten");
    }
}
