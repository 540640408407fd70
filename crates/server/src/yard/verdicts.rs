//! Ends that the server itself decides about running jobs, for their owners to carry out.
//!
//! A verdict is in memory only, because it is needed when the store can't be written: the owner kills the machine first and
//! records the end as soon as that works. A server that dies in between forgets the verdict, and the next one finds a dead
//! machine.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::job::JobId;

/// Why the server ends a job at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobVerdict {
    /// A client asked for it while the store could not record the request.
    Cancelled,
    /// The yard's disk ran low, and this job's sandbox used most of it.
    DiskExhausted {
        /// Disk space of the sandbox, in MiB.
        used_mib: u64,
    },
}

/// The verdicts that are not carried out yet. At most one for each live job.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    passed: Mutex<HashMap<JobId, JobVerdict>>,
    /// Counts the verdicts, so that owners look again.
    count: watch::Sender<u64>,
}

impl Verdicts {
    /// Passes a verdict and wakes the job's owner. The first one stands.
    pub(crate) fn pass(&self, job: &JobId, verdict: JobVerdict) {
        self.passed.lock().entry(job.clone()).or_insert(verdict);
        self.count.send_modify(|count| *count += 1);
    }

    /// Returns the verdict about a job, if there is one.
    pub(crate) fn about(&self, job: &JobId) -> Option<JobVerdict> {
        self.passed.lock().get(job).copied()
    }

    /// Waits for a verdict about a job. Loses nothing when cancelled.
    pub(crate) async fn wait(&self, job: &JobId) -> JobVerdict {
        let mut count = self.count.subscribe();
        loop {
            if let Some(verdict) = self.about(job) {
                return verdict;
            }
            if count.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Forgets the verdict about a job whose end is recorded.
    pub(crate) fn forget(&self, job: &JobId) {
        self.passed.lock().remove(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::random_id;

    #[tokio::test]
    async fn a_verdict_reaches_its_job_alone_and_the_first_one_stands() {
        let (verdicts, job, other) = (Verdicts::default(), random_id().unwrap(), random_id().unwrap());
        let waiting = async {
            let verdict = verdicts.wait(&job).await;
            (verdict, verdicts.about(&other))
        };
        let passing = async {
            tokio::task::yield_now().await;
            verdicts.pass(&job, JobVerdict::Cancelled);
            verdicts.pass(&job, JobVerdict::DiskExhausted { used_mib: 1 });
        };
        let (found, ()) = tokio::join!(waiting, passing);
        assert_eq!(found, (JobVerdict::Cancelled, None));
        verdicts.forget(&job);
        assert_eq!(verdicts.about(&job), None);
    }
}
