//! The life of a job: its states, and the one table of legal moves.

use serde::{Deserialize, Serialize};

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Accepted, waiting for room.
    Queued,
    /// A machine is being made for it.
    Starting,
    /// Its process runs.
    Running,
    /// It asked something and its clocks stand still.
    Waiting,
    /// It is over; its workspace is being taken out.
    Finishing,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Ended by request.
    Cancelled,
    /// Ended by a time limit.
    TimedOut,
}

impl JobState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Starting,
        Self::Running,
        Self::Waiting,
        Self::Finishing,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
    ];

    /// The name in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Finishing => "finishing",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }

    /// The state of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether a job never leaves it.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::TimedOut)
    }
}

/// The table of legal moves. A machine that was never made can end a job at once; one that was made ends it
/// through `finishing`, so that its workspace is taken out. `starting` goes back to `queued` when the host has no room after all.
const MOVES: [(JobState, &[JobState]); 9] = [
    (JobState::Queued, &[JobState::Starting, JobState::Failed, JobState::Cancelled]),
    (
        JobState::Starting,
        &[JobState::Queued, JobState::Running, JobState::Finishing, JobState::Failed, JobState::Cancelled],
    ),
    (JobState::Running, &[JobState::Waiting, JobState::Finishing]),
    (JobState::Waiting, &[JobState::Running, JobState::Finishing]),
    (JobState::Finishing, &[JobState::Succeeded, JobState::Failed, JobState::Cancelled, JobState::TimedOut]),
    (JobState::Succeeded, &[]),
    (JobState::Failed, &[]),
    (JobState::Cancelled, &[]),
    (JobState::TimedOut, &[]),
];

/// Whether a job may go from one state to another.
pub fn allowed(from: JobState, to: JobState) -> bool {
    MOVES.iter().any(|(state, targets)| *state == from && targets.contains(&to))
}

/// Whether a job's machine is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// Not made yet.
    None,
    /// Being made.
    Starting,
    /// There: tools work.
    Live,
    /// Was there once.
    Gone,
}

impl SandboxState {
    /// The name in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Starting => "starting",
            Self::Live => "live",
            Self::Gone => "gone",
        }
    }

    /// The state of that name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Starting, Self::Live, Self::Gone].into_iter().find(|state| state.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for state in JobState::ALL {
            assert_eq!(JobState::parse(state.as_str()), Some(state));
        }
        assert_eq!(JobState::parse("paused"), None);
    }

    #[test]
    fn nothing_leaves_a_terminal_state() {
        for from in JobState::ALL.into_iter().filter(|state| state.is_terminal()) {
            for to in JobState::ALL {
                assert!(!allowed(from, to), "{from:?} → {to:?}");
            }
        }
    }

    #[test]
    fn every_state_can_still_end() {
        for from in JobState::ALL.into_iter().filter(|state| !state.is_terminal()) {
            let mut reached = vec![from];
            for _ in JobState::ALL {
                let next: Vec<_> = JobState::ALL
                    .into_iter()
                    .filter(|to| reached.iter().any(|at| allowed(*at, *to)))
                    .collect();
                reached.extend(next);
            }
            assert!(reached.iter().any(|state| state.is_terminal()), "{from:?}");
        }
    }

    #[test]
    fn a_job_that_ran_is_never_queued_again() {
        for from in [JobState::Running, JobState::Waiting, JobState::Finishing] {
            assert!(!allowed(from, JobState::Queued));
            assert!(!allowed(from, JobState::Starting));
        }
    }
}
