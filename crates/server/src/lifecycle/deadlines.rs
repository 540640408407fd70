//! The deadlines of a job on the host, which hold should its guest not keep them.

use std::time::{Duration, Instant};

use super::outcome::{EndCircumstances, JobOutcome};
use super::question_timeout::waited;
use crate::clock::Clock;
use crate::job::JobRow;

/// Time that a guest has beyond the job's own before the host ends the sandbox.
const BACKSTOP_MARGIN: Duration = Duration::from_secs(20);

/// The host's own deadline for a job, should its guest not end it, and the outcome then.
#[derive(Debug, Clone)]
pub(super) struct EndDeadline {
    pub(super) at: Instant,
    pub(super) outcome: JobOutcome,
}

impl EndDeadline {
    /// Returns the earlier of two deadlines, with its outcome.
    pub(super) fn min(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }
}

/// The host's own limit on the job's time, should the guest not keep it.
pub(super) fn running_backstop(row: &JobRow, clock: Clock) -> EndDeadline {
    let at = Instant::now() + time_left(row, clock) + BACKSTOP_MARGIN;
    EndDeadline { at, outcome: JobOutcome::timed_out(circumstances(row)) }
}

/// The host's deadline for a question, which waits `seconds` at most.
pub(super) fn waiting_backstop(until: Instant, seconds: u64) -> EndDeadline {
    EndDeadline { at: until + BACKSTOP_MARGIN, outcome: JobOutcome::unanswered(seconds) }
}

/// Returns the rest of the job's time.
pub(super) fn time_left(row: &JobRow, clock: Clock) -> Duration {
    Duration::from_secs(row.limits.timeout_s).saturating_sub(time_used(row, clock))
}

/// Returns how long the job has run, without its waits for people, by the wall clock; zero if that clock jumped back.
pub(crate) fn time_used(row: &JobRow, clock: Clock) -> Duration {
    let started = row.started_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
    let now = clock.since_epoch();
    started.map_or(Duration::ZERO, |started| now.saturating_sub(started).saturating_sub(waited(row, now)))
}

pub(super) fn circumstances(row: &JobRow) -> EndCircumstances<'_> {
    EndCircumstances { kind: row.kind, limits: &row.limits, usage: row.usage.as_ref(), disk_full: false }
}
