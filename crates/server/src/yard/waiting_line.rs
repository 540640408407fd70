//! The order in which waiting jobs get room: oldest first, and a smaller job may overtake one that does not fit.
//!
//! Overtaking ends when the oldest job without room has been first in line for [`patience`](WaitingLine::new). From then on room
//! that comes back is left to it, so small jobs fill the host and never starve a large one. The time counts from the moment at
//! which this server first saw the job in that place; a restart begins it anew.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::job::{JobId, JobWait};

/// The jobs without room, as the last round of claims saw them.
#[derive(Debug)]
pub(crate) struct WaitingLine {
    patience: Duration,
    state: Mutex<LineState>,
}

#[derive(Debug, Default)]
struct LineState {
    /// The oldest job without room, and when it became that.
    first: Option<(JobId, Instant)>,
    /// What jobs wait for. Bounded by the number of jobs that a round looks at.
    waits: HashMap<JobId, JobWait>,
}

/// One look through the queue, from the oldest job on.
#[derive(Debug)]
pub(crate) struct QueueRound<'a> {
    line: &'a WaitingLine,
    now: Instant,
    first: Option<(JobId, Instant)>,
    waits: HashMap<JobId, JobWait>,
}

impl WaitingLine {
    /// `patience` is the time for which the oldest job without room lets others overtake it.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, state: Mutex::default() }
    }

    /// Begins a round.
    pub(crate) fn round(&self, now: Instant) -> QueueRound<'_> {
        QueueRound { line: self, now, first: None, waits: HashMap::new() }
    }

    /// Returns what a queued job waited for in the last round; `None` if the round did not reach it.
    pub(crate) fn wait_of(&self, job: &JobId) -> Option<JobWait> {
        self.state().waits.get(job).cloned()
    }

    fn state(&self) -> MutexGuard<'_, LineState> {
        self.state.lock()
    }
}

impl QueueRound<'_> {
    /// Returns the job that nobody may overtake any more, once the round has met it.
    pub(crate) fn held_by(&self) -> Option<&JobId> {
        let (job, since) = self.first.as_ref()?;
        (self.now.saturating_duration_since(*since) >= self.line.patience).then_some(job)
    }

    /// Records that a job has to wait. Only one that lacks room can hold the line: a driver may never come.
    pub(crate) fn waits(&mut self, job: &JobId, wait: JobWait) {
        if self.first.is_none() && wait.ends_with_others() {
            let earlier = self.line.state().first.clone().filter(|(first, _)| first == job);
            self.first = Some(earlier.unwrap_or_else(|| (job.clone(), self.now)));
        }
        self.waits.insert(job.clone(), wait);
    }

    /// Ends the round. One that ended early, because the host is full, did not meet the first job: that one keeps its place.
    pub(crate) fn end(self) {
        let mut state = self.line.state();
        state.first = self.first.or(state.first.take());
        state.waits = self.waits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{RoomShortage, random_id};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn no_room() -> JobWait {
        JobWait::Room(RoomShortage::Disk { headroom_mib: 1 })
    }

    #[test]
    fn the_first_job_without_room_is_overtaken_until_its_patience_ends() {
        let (line, begin) = (WaitingLine::new(PATIENCE), Instant::now());
        let (large, other, driverless) = (random_id().unwrap(), random_id().unwrap(), random_id().unwrap());
        for (after_s, held) in [(0, false), (59, false), (60, true), (600, true)] {
            let mut round = line.round(begin + Duration::from_secs(after_s));
            round.waits(&driverless, JobWait::Driver("none".into()));
            assert_eq!(round.held_by(), None, "no room is missing before that job");
            round.waits(&large, no_room());
            round.waits(&other, no_room());
            assert_eq!(round.held_by().is_some(), held, "after {after_s} s");
            round.end();
        }
        assert_eq!(line.wait_of(&large), Some(no_room()));
        // The large job has started, so the next one is first, for as long.
        let mut round = line.round(begin + Duration::from_secs(700));
        round.waits(&other, no_room());
        assert_eq!(round.held_by(), None);
        round.end();
        assert_eq!(line.wait_of(&large), None);
    }
}
