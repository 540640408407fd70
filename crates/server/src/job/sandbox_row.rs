//! A sandbox as it is stored: a machine that a driver makes, for a job or for nobody yet.
//!
//! The row is committed before its driver starts anything and deleted after its driver has stopped it, so a sandbox without a
//! row is one that nobody needs, and a row without a sandbox is one that is not made yet.

use sandyard_protocol::Secret;
use sandyard_sandbox::driver::{ImageDigest, Limits, SandboxId};

use super::change_error::ChangeError;
use super::id::JobId;
use super::sandbox_phase::SandboxPhase;

/// A sandbox as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SandboxRow {
    pub(crate) id: SandboxId,
    /// The driver that makes and stops it.
    pub(crate) driver: String,
    /// Image of its root file system; not known before its machine is made.
    pub(crate) image: Option<ImageDigest>,
    /// Proves host and guest to each other.
    pub(crate) secret: Secret,
    pub(crate) phase: SandboxPhase,
    /// Server that holds it; none while no server does.
    pub(crate) owner: Option<String>,
    /// The job that runs in it; see [`SandboxPhase::has_job`].
    pub(crate) job: Option<JobId>,
    /// Limits of its machine.
    pub(crate) limits: Limits,
    pub(crate) limits_binding: LimitsBinding,
    pub(crate) created_ms: i64,
}

/// State of the limits of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitsBinding {
    /// The driver must bind the job's limits before the job may begin.
    Provisional,
    /// The limits of the machine are those of its job.
    Bound,
}

impl LimitsBinding {
    /// The name in the store.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Provisional => "provisional",
            Self::Bound => "bound",
        }
    }

    /// The binding of that name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Provisional, Self::Bound].into_iter().find(|binding| binding.as_str() == name)
    }
}

impl SandboxRow {
    /// A sandbox that is to be made for a job, which [`super::apply`] names.
    pub(crate) fn for_job(id: SandboxId, driver: String, secret: Secret, limits: Limits) -> Self {
        Self {
            id,
            driver,
            image: None,
            secret,
            phase: SandboxPhase::Bound,
            owner: None,
            job: None,
            limits,
            limits_binding: LimitsBinding::Bound,
            created_ms: 0,
        }
    }

    /// Moves the sandbox by the table of legal moves. It gets this job, or loses the one it had.
    pub(crate) fn move_to(&mut self, phase: SandboxPhase, job: Option<JobId>) -> Result<(), ChangeError> {
        if !self.phase.may_become(phase) || phase.has_job() != job.is_some() {
            let (sandbox, from) = (self.id.clone(), self.phase);
            return Err(ChangeError::IllegalSandboxMove { sandbox, from, to: phase });
        }
        (self.phase, self.job) = (phase, job);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::samples;

    #[test]
    fn a_parked_sandbox_waits_without_a_job_and_is_bound_to_one() {
        let mut row = samples::parked_sandbox();
        let job = super::super::random_id().unwrap();
        assert!(row.move_to(SandboxPhase::Bound, None).is_err(), "a bound sandbox has a job");
        assert!(row.move_to(SandboxPhase::Paused, Some(job.clone())).is_err());
        row.move_to(SandboxPhase::Bound, Some(job.clone())).unwrap();
        row.move_to(SandboxPhase::Paused, Some(job.clone())).unwrap();
        row.move_to(SandboxPhase::Bound, Some(job.clone())).unwrap();
        assert!(row.move_to(SandboxPhase::Parked, None).is_err(), "what a job has touched serves no other");
        row.move_to(SandboxPhase::Leaving, None).unwrap();
        assert_eq!((row.phase, row.job), (SandboxPhase::Leaving, None));
    }
}
