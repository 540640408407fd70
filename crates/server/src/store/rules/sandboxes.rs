//! Rows of sandboxes: the rule for those that are needed, and the effect of each write.

use crate::job::apply::{ChangeError, SandboxWrite};
use crate::job::{JobRow, SandboxPhase, SandboxRow};

/// The fate of a sandbox when a server cleans up after others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SandboxFate {
    /// It stays: a job needs it, or it waits for one.
    Keep,
    /// Its driver stops it; its row goes once that has returned.
    Stop,
}

/// Decides on a sandbox. `job` is the row of the job that it names, if there is one.
pub(crate) fn fate_of(sandbox: &SandboxRow, job: Option<&JobRow>) -> SandboxFate {
    let is_needed = match sandbox.phase {
        SandboxPhase::Bound | SandboxPhase::Paused => {
            job.is_some_and(|job| job.open && job.sandbox_id.as_ref() == Some(&sandbox.id))
        }
        SandboxPhase::Parked => true,
        // An owner still makes it. Without an owner its server is dead, and nobody finishes a machine that is half made.
        SandboxPhase::Starting => sandbox.owner.is_some(),
        SandboxPhase::Leaving => false,
    };
    if is_needed { SandboxFate::Keep } else { SandboxFate::Stop }
}

/// Returns the row of a sandbox after a write; `None` if the row is deleted. A repeated write changes nothing.
pub(crate) fn write_sandbox(
    found: Option<SandboxRow>,
    write: &SandboxWrite,
) -> Result<Option<SandboxRow>, ChangeError> {
    let mut found = found;
    match (write, &mut found) {
        (SandboxWrite::Insert(row), None) => return Ok(Some(SandboxRow::clone(row))),
        // An id is never used twice.
        (SandboxWrite::Insert(_), Some(_)) => return Err(ChangeError::Damaged { what: "sandbox id" }),
        (SandboxWrite::Remove(_), _) => return Ok(None),
        (SandboxWrite::Image { image, .. }, Some(row)) => row.image = Some(image.clone()),
        (SandboxWrite::Owner { owner, .. }, Some(row)) => row.owner = Some(owner.clone()),
        (SandboxWrite::Leave(_), Some(row)) if row.phase == SandboxPhase::Leaving => {}
        (SandboxWrite::Leave(_), Some(row)) => row.move_to(SandboxPhase::Leaving, None)?,
        (_, None) => {}
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::samples;

    #[test]
    fn a_sandbox_stays_as_long_as_its_job_is_open_and_has_it() {
        let mut job = samples::job_row();
        let sandbox = SandboxRow { job: Some(job.id.clone()), ..samples::sandbox() };
        job.sandbox_id = Some(sandbox.id.clone());
        assert_eq!(fate_of(&sandbox, Some(&job)), SandboxFate::Keep);
        assert_eq!(fate_of(&sandbox, None), SandboxFate::Stop, "its job is gone");
        let over = JobRow { open: false, ..job.clone() };
        assert_eq!(fate_of(&sandbox, Some(&over)), SandboxFate::Stop, "its job is over");
        job.sandbox_id = Some(samples::sandbox().id);
        assert_eq!(fate_of(&sandbox, Some(&job)), SandboxFate::Stop, "its job has another");
    }

    #[test]
    fn a_sandbox_without_a_job_stays_if_it_is_parked() {
        let parked = samples::parked_sandbox();
        assert_eq!(fate_of(&parked, None), SandboxFate::Keep);
        let starting = SandboxRow { phase: SandboxPhase::Starting, ..parked.clone() };
        assert_eq!(fate_of(&starting, None), SandboxFate::Stop, "its server died while it was made");
        let held = SandboxRow { owner: Some("server".into()), ..starting };
        assert_eq!(fate_of(&held, None), SandboxFate::Keep);
        let leaving = write_sandbox(Some(parked.clone()), &SandboxWrite::Leave(parked.id.clone())).unwrap();
        assert_eq!(fate_of(&leaving.unwrap(), None), SandboxFate::Stop);
    }
}
