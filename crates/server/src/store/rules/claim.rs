//! Ownership of jobs. A lease gives a job to one server for a time; the epoch, which rises with every claim, fences all writes of
//! earlier owners.

use super::{JobBefore, JobLease, JobWrite, LeasedJob, StoreRules, owned};
use crate::job::apply::{self, SandboxWrite};
use crate::job::{Change, JobFence, JobRow, JobState};
use crate::store::{JobClaim, StoreError};

impl StoreRules<'_> {
    /// Gives a queued job that is free to an owner; `None` if it is not queued, is being deleted, or has an owner.
    pub(crate) fn claim_queued(
        &self,
        found: Option<LeasedJob>,
        claim: JobClaim,
    ) -> Result<Option<JobWrite>, StoreError> {
        let Some(LeasedJob { row, lease }) = found else { return Ok(None) };
        let is_queued = row.state == JobState::Queued && !row.delete_requested;
        if !is_queued || !lease.is_free(self.now.lease_ms) {
            return Ok(None);
        }
        self.take(JobBefore::of(&row), row, claim).map(Some)
    }

    /// Takes an unfinished job whose lease has run out; `None` for any other job. Its sandbox changes hands with it.
    pub(crate) fn claim_orphan(
        &self,
        found: LeasedJob,
        owner: &str,
        ttl_ms: u64,
    ) -> Result<Option<JobWrite>, StoreError> {
        let LeasedJob { row, lease } = found;
        // A queued job is claimed through the queue, where admission counts it. A deleted one needs an owner only to be removed.
        let has_begun = row.state != JobState::Queued || row.delete_requested;
        if !row.open || !has_begun || !lease.is_free(self.now.lease_ms) {
            return Ok(None);
        }
        let claim = JobClaim { owner: owner.to_owned(), ttl_ms, changes: Vec::new() };
        let mut write = self.take(JobBefore::of(&row), row, claim)?;
        let sandbox = write.row.sandbox_id.clone();
        let hands_over = sandbox.map(|sandbox| SandboxWrite::Owner { sandbox, owner: owner.to_owned() });
        write.applied.sandboxes.extend(hands_over);
        Ok(Some(write))
    }

    /// The lease of an owner, prolonged; `None` if it has run out or belongs to another.
    pub(crate) fn renew(&self, lease: &JobLease, owner: &str, ttl_ms: u64) -> Option<JobLease> {
        // A lease that ran out is never revived: another server may be about to take the job.
        let holds = lease.owner.as_deref() == Some(owner) && !lease.is_free(self.now.lease_ms);
        holds.then(|| self.lease(owner.to_owned(), ttl_ms))
    }

    /// Puts a claimed job back into the queue. Its sandbox, if it has one, was stopped before.
    pub(crate) fn requeue(
        &self,
        found: Option<JobRow>,
        fence: &JobFence,
        reason: String,
    ) -> Result<JobWrite, StoreError> {
        let mut row = owned(found, fence)?;
        // The row forgets its sandbox here, so the next claim gives it a new one with a new secret.
        let (before, stopped) = (JobBefore::of(&row), row.sandbox_id.take());
        let back = Change::Move { to: JobState::Queued, reason: Some(reason) };
        let mut write = self.change(before, row, vec![back])?;
        if let Some(sandbox) = stopped {
            apply::sandbox_stopped(&mut write.row, sandbox, &mut write.applied);
        }
        Ok(JobWrite { lease: Some(JobLease::free()), ..write })
    }

    /// Gives a row to an owner and applies the changes of its claim.
    pub(super) fn take(
        &self,
        before: JobBefore,
        mut row: JobRow,
        claim: JobClaim,
    ) -> Result<JobWrite, StoreError> {
        // Every claim raises the epoch: from this commit on, all writes of earlier owners are refused.
        row.epoch += 1;
        let lease = Some(self.lease(claim.owner, claim.ttl_ms));
        Ok(JobWrite { lease, ..self.change(before, row, claim.changes)? })
    }

    fn lease(&self, owner: String, ttl_ms: u64) -> JobLease {
        let ttl_ms = i64::try_from(ttl_ms).unwrap_or(i64::MAX);
        JobLease { owner: Some(owner), until_ms: self.now.lease_ms.saturating_add(ttl_ms) }
    }
}
