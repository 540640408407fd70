//! The last known usage of jobs that run: asked of the driver at most once in a while, and remembered in case the machine dies
//! before its last usage was read. [`super::usage_reading`] asks.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sandyard_sandbox::driver::Usage;

use crate::job::JobId;

/// Age at which a usage is asked for again: less than the second between two live figures of `stats`.
const REFRESH_AFTER: Duration = Duration::from_millis(900);
/// Jobs that are remembered before old ones are forgotten. Jobs that nobody looks at have no entry.
const MAX_USAGES: usize = 4096;
/// Age at which an entry may be forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// The last known usage of each job that somebody looked at.
#[derive(Debug, Default)]
pub(crate) struct Usages(Mutex<HashMap<JobId, KnownUsage>>);

#[derive(Debug, Clone, Copy)]
struct KnownUsage {
    /// None until the driver has answered once.
    usage: Option<Usage>,
    asked: Instant,
}

impl Usages {
    /// Returns the last known usage of a job.
    pub(crate) fn last(&self, job: &JobId) -> Option<Usage> {
        self.0.lock().get(job).and_then(|sample| sample.usage)
    }

    /// True if the caller is to ask the driver now; others are served with the last answer meanwhile.
    pub(super) fn is_due(&self, job: &JobId, now: Instant) -> bool {
        let mut samples = self.0.lock();
        if samples.len() >= MAX_USAGES {
            samples.retain(|_, sample| now.saturating_duration_since(sample.asked) < FORGET_AFTER);
        }
        let sample = samples.get(job).copied();
        let due = sample.is_none_or(|sample| now.saturating_duration_since(sample.asked) >= REFRESH_AFTER);
        if due {
            let usage = sample.and_then(|sample| sample.usage);
            samples.insert(job.clone(), KnownUsage { usage, asked: now });
        }
        due
    }

    pub(super) fn answered(&self, job: &JobId, usage: Usage) {
        // Not for a job that has ended meanwhile: nobody would forget the entry.
        if let Some(sample) = self.0.lock().get_mut(job) {
            sample.usage = Some(usage);
        }
    }

    pub(super) fn take(&self, job: &JobId) -> Option<Usage> {
        self.0.lock().remove(job).and_then(|sample| sample.usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::random_id;

    #[test]
    fn one_reader_asks_at_a_time_and_the_answer_stays_until_the_end() {
        let usages = Usages::default();
        let (job, start) = (random_id().unwrap(), Instant::now());
        assert!(usages.is_due(&job, start));
        assert!(!usages.is_due(&job, start + REFRESH_AFTER / 2));
        let usage = Usage { cpu_s: 1.5, ..Usage::default() };
        usages.answered(&job, usage);
        assert_eq!(usages.last(&job), Some(usage));
        assert!(usages.is_due(&job, start + REFRESH_AFTER));
        assert_eq!(usages.last(&job), Some(usage), "known while the next answer is awaited");
        assert_eq!(usages.take(&job), Some(usage));
        usages.answered(&job, usage);
        assert_eq!(usages.last(&job), None, "a late answer is not kept");
    }

    #[test]
    fn old_entries_make_room() {
        let usages = Usages::default();
        let start = Instant::now();
        (0..MAX_USAGES).for_each(|_| assert!(usages.is_due(&random_id().unwrap(), start)));
        assert!(usages.is_due(&random_id().unwrap(), start + FORGET_AFTER));
        assert_eq!(usages.0.lock().len(), 1);
    }
}
