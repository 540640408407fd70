//! The usage of jobs that run, for their statuses: asked of the driver at most once in a while, and remembered in case the machine
//! dies before its last usage was read.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sandyard_protocol::ErrorChain;
use sandyard_sandbox::driver::Usage;

use super::YardContext;
use crate::job::{JobId, JobRow, JobState, SandboxState};

/// Age at which a usage is asked for again: less than the second between two live figures of `stats`.
const SHOWN_AGE: Duration = Duration::from_millis(900);
/// Longest time that a status waits for a driver; a virtual machine answers from inside.
const STATUS_PATIENCE: Duration = Duration::from_millis(300);
/// Longest time that the end of a job waits for a driver.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// Jobs that are remembered before old ones are forgotten. Jobs that nobody looks at have no entry.
const MANY: usize = 4096;
/// Age at which an entry may be forgotten.
const OLD: Duration = Duration::from_secs(600);

/// The last known usage of each job that somebody looked at.
#[derive(Debug, Default)]
pub(crate) struct Usages(Mutex<HashMap<JobId, UsageSample>>);

#[derive(Debug, Clone, Copy)]
struct UsageSample {
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
    fn is_due(&self, job: &JobId, now: Instant) -> bool {
        let mut samples = self.0.lock();
        if samples.len() >= MANY {
            samples.retain(|_, sample| now.saturating_duration_since(sample.asked) < OLD);
        }
        let sample = samples.get(job).copied();
        let due = sample.is_none_or(|sample| now.saturating_duration_since(sample.asked) >= SHOWN_AGE);
        if due {
            let usage = sample.and_then(|sample| sample.usage);
            samples.insert(job.clone(), UsageSample { usage, asked: now });
        }
        due
    }

    fn answered(&self, job: &JobId, usage: Usage) {
        // Not for a job that has ended meanwhile: nobody would forget the entry.
        if let Some(sample) = self.0.lock().get_mut(job) {
            sample.usage = Some(usage);
        }
    }

    fn take(&self, job: &JobId) -> Option<Usage> {
        self.0.lock().remove(job).and_then(|sample| sample.usage)
    }
}

impl YardContext {
    /// Asks for the usage of a job that runs, if the last answer is old. [`Usages::last`] has it then.
    pub(crate) async fn refresh_usage(&self, row: &JobRow) {
        let runs = row.state == JobState::Running && row.sandbox == SandboxState::Live;
        if runs
            && self.usages.is_due(&row.id, Instant::now())
            && let Ok(usage) = self.ask_usage(row, STATUS_PATIENCE).await
        {
            self.usages.answered(&row.id, usage);
        }
    }

    /// Returns the usage of a job that ends: what its driver counts, else what was last known. The sandbox may be dead already.
    pub(crate) async fn final_usage(&self, row: &JobRow) -> Option<Usage> {
        let last = self.usages.take(&row.id);
        let told = self.ask_usage(row, END_PATIENCE).await;
        told.inspect_err(|error| tracing::debug!(job = %row.id, error, "no usage")).ok().or(last)
    }

    async fn ask_usage(&self, row: &JobRow, patience: Duration) -> Result<Usage, String> {
        let (driver, sandbox) = self.driver(row).zip(row.sandbox_id.as_ref()).ok_or("there is no sandbox")?;
        let told = tokio::time::timeout(patience, driver.usage(sandbox)).await;
        told.map_err(|_| "it took too long")?.map_err(|error| ErrorChain(&error).to_string())
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
        assert!(!usages.is_due(&job, start + SHOWN_AGE / 2));
        let usage = Usage { cpu_s: 1.5, ..Usage::default() };
        usages.answered(&job, usage);
        assert_eq!(usages.last(&job), Some(usage));
        assert!(usages.is_due(&job, start + SHOWN_AGE));
        assert_eq!(usages.last(&job), Some(usage), "known while the next answer is awaited");
        assert_eq!(usages.take(&job), Some(usage));
        usages.answered(&job, usage);
        assert_eq!(usages.last(&job), None, "a late answer is not kept");
    }

    #[test]
    fn old_entries_make_room() {
        let usages = Usages::default();
        let start = Instant::now();
        (0..MANY).for_each(|_| assert!(usages.is_due(&random_id().unwrap(), start)));
        assert!(usages.is_due(&random_id().unwrap(), start + OLD));
        assert_eq!(usages.0.lock().len(), 1);
    }
}
