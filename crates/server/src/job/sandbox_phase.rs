//! The life of a sandbox: the one table of legal moves.

/// The life of a sandbox. A sandbox that is gone has no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SandboxPhase {
    /// Being made for no job in particular.
    Starting,
    /// Made, and waits for a job.
    Parked,
    /// Belongs to a job, from before its machine is made.
    Bound,
    /// Belongs to a job; its machine stands still.
    Paused,
    /// No job needs the sandbox; its driver must stop it before the row goes.
    Leaving,
}

/// The table of legal moves. Every sandbox can leave, and none comes back.
const MOVES: [(SandboxPhase, &[SandboxPhase]); 5] = [
    (SandboxPhase::Starting, &[SandboxPhase::Parked, SandboxPhase::Leaving]),
    (SandboxPhase::Parked, &[SandboxPhase::Bound, SandboxPhase::Leaving]),
    (SandboxPhase::Bound, &[SandboxPhase::Paused, SandboxPhase::Leaving]),
    (SandboxPhase::Paused, &[SandboxPhase::Bound, SandboxPhase::Leaving]),
    (SandboxPhase::Leaving, &[]),
];

impl SandboxPhase {
    /// The name in the store.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Parked => "parked",
            Self::Bound => "bound",
            Self::Paused => "paused",
            Self::Leaving => "leaving",
        }
    }

    /// The phase of that name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        MOVES.iter().map(|(phase, _)| *phase).find(|phase| phase.as_str() == name)
    }

    /// True if every sandbox in this phase has a job; in the others none has.
    pub(crate) fn has_job(self) -> bool {
        matches!(self, Self::Bound | Self::Paused)
    }

    pub(super) fn may_become(self, to: Self) -> bool {
        MOVES.iter().any(|(phase, targets)| *phase == self && targets.contains(&to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_is_read_back_and_can_leave_for_good() {
        for (phase, _) in MOVES {
            assert_eq!(SandboxPhase::parse(phase.as_str()), Some(phase));
            assert_eq!(phase.may_become(SandboxPhase::Leaving), phase != SandboxPhase::Leaving);
            assert!(!SandboxPhase::Leaving.may_become(phase));
        }
        assert_eq!(SandboxPhase::parse("gone"), None);
    }
}
