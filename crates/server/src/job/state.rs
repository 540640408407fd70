//! The life of a job: the one table of legal moves.

pub use sandyard_api::{JobState, SandboxState};

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

/// True if the table allows the move.
pub(crate) fn allowed(from: JobState, to: JobState) -> bool {
    MOVES.iter().any(|(state, targets)| *state == from && targets.contains(&to))
}

#[cfg(test)]
mod tests {
    use super::*;

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
