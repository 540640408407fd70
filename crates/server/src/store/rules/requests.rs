//! Requests of clients about a job: its end, and its removal.

use sandyard_sandbox::driver::SandboxId;

use super::audit::yard_entry;
use super::{JobBefore, JobLease, JobWrite, StoreRules, known, owned};
use crate::audit::AuditEntry;
use crate::job::{Change, JobFence, JobRow, JobState};
use crate::store::StoreError;

/// The decision on a request to end a job.
#[derive(Debug)]
pub(crate) enum CancelDecision {
    /// There is no such job.
    Unknown,
    /// The job has ended, or was asked to before.
    Answer(Box<JobRow>),
    /// The request is written.
    Write(Box<JobWrite>),
}

/// A job whose rows go.
#[derive(Debug)]
pub(crate) struct RemovedJob {
    pub(crate) row: JobRow,
    /// A sandbox that nobody has stopped: its row stays, without the job, until somebody does.
    pub(crate) leaves: Option<SandboxId>,
}

impl StoreRules<'_> {
    /// Asks for the end of a job, or of the sandbox that is kept for it; a queued one ends at once.
    pub(crate) fn request_cancel(
        &self,
        found: Option<JobRow>,
        entry: AuditEntry,
    ) -> Result<CancelDecision, StoreError> {
        let Some(mut row) = known(found) else { return Ok(CancelDecision::Unknown) };
        // An ended job that is still open may have a kept sandbox: the request ends that.
        if (row.state.is_terminal() && !(row.open && row.keep)) || row.cancel_requested {
            return Ok(CancelDecision::Answer(Box::new(row)));
        }
        let before = JobBefore::of(&row);
        row.cancel_requested = true;
        let mut changes = vec![Change::Audit(entry.clone())];
        if row.state == JobState::Queued {
            // A queued job has no owner, so nobody else would end it. The higher epoch stops an owner that is about to take it.
            row.epoch += 1;
            let reason = Some("cancelled before it started".into());
            changes.extend([Change::Move { to: JobState::Cancelled, reason }, Change::Closed]);
        }
        let mut write = self.change(before, row, changes)?;
        write.for_yard = yard_entry(&entry, &write.row);
        Ok(CancelDecision::Write(Box::new(write)))
    }

    /// Marks a job as deleted; `None` if it is unknown. A job that was done with is free to be taken and removed.
    pub(crate) fn request_delete(
        &self,
        found: Option<JobRow>,
        entry: AuditEntry,
    ) -> Result<Option<JobWrite>, StoreError> {
        let Some(mut row) = known(found) else { return Ok(None) };
        let before = JobBefore::of(&row);
        row.delete_requested = true;
        // A deletion also ends a running job. The owner sees both flags and goes straight to the removal.
        row.cancel_requested |= !row.state.is_terminal();
        // A closed job has no owner any more. Opening it with a free lease lets the loop take it as an orphan and remove it.
        let lease = (!row.open).then(JobLease::free);
        row.open = true;
        let write = self.change(before, row, vec![Change::Audit(entry.clone())])?;
        // The job's own audit goes with it; the yard's still names who deleted it.
        let for_yard = yard_entry(&entry, &write.row);
        Ok(Some(JobWrite { lease, for_yard, ..write }))
    }

    /// Lets the owner of a job remove all its rows.
    pub(crate) fn remove(&self, found: Option<JobRow>, fence: &JobFence) -> Result<RemovedJob, StoreError> {
        let mut row = owned(found, fence)?;
        // The row still names a sandbox only if nobody has stopped it: `commit` deletes the rows of stopped ones.
        let leaves = row.sandbox_id.take();
        Ok(RemovedJob { row, leaves })
    }
}
