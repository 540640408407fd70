//! The phases after the end: keep the machine if asked to, tear down, delete.

use std::time::Duration;

use sandyard_protocol::ErrorChain;

use super::linking;
use super::owner::{JobOwner, LinkedMachine, NextStep, on};
use crate::blobs::BlobScope;
use crate::job::{Change, FailureCode, JobRow};
use crate::output;
use crate::store::StoreError;

/// Time for one attempt to link a kept machine again.
const RELINK_TIMEOUT: Duration = Duration::from_secs(60);

impl JobOwner {
    /// Closes an ended job: holds its machine if it is kept, then removes machine and disk.
    pub(super) async fn close(&mut self, row: JobRow) -> Result<NextStep, StoreError> {
        self.context.config.fail_points.reach("closing").await;
        // The log is consolidated before the machine is held: a kept machine may stay for hours.
        if let Some(until_ms) = self.context.kept_until_ms(&row) {
            self.consolidate(&row).await;
            self.hold(&row, until_ms).await?;
            // `hold` returns when the job is deleted or its machine is not kept any more. Only the row says which.
            if let Some(fresh) = self.context.store.any_job(&row.id).await?.filter(|row| row.delete_requested)
            {
                return on(fresh);
            }
        }
        // Stopped before the disk is removed: the machine writes to it until it is dead.
        self.stop_present_sandbox(&row).await;
        self.context.config.fail_points.reach("stopped").await;
        self.consolidate(&row).await;
        // A job that ran and has no artifact keeps its disk: it is the only copy of the workspace. One that was ended because its
        // disk took too much does not: only its removal frees the space.
        if row.artifact.is_some() || !row.begun || is_exhausted(&row) {
            self.remove_workspace(&row).await;
            self.remove_blobs(BlobScope::Start(row.id.clone())).await;
        }
        // Committed last. A crash before this line leaves the job open, and the next owner repeats the steps above, which
        // succeed on things that are gone already.
        let row = self.commit(&row, vec![Change::Closed]).await?;
        self.context.verdicts.forget(&row.id);
        if row.delete_requested { on(row) } else { Ok(NextStep::Done) }
    }

    /// Lets tools reach a kept machine until its time is over, the machine dies, or the job is cancelled or deleted.
    async fn hold(&mut self, row: &JobRow, until_ms: i64) -> Result<(), StoreError> {
        let (Some(driver), Some(sandbox)) = (self.context.driver(row), row.sandbox_id.clone()) else {
            return Ok(());
        };
        self.permit.count_as_kept();
        let context = std::sync::Arc::clone(&self.context);
        let left_ms = until_ms.saturating_sub(context.clock.unix_ms());
        let deadline = tokio::time::sleep(Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)));
        tokio::pin!(deadline);
        loop {
            if self.linked.is_none() {
                // Neither a request nor the deadline must wait for a machine that does not answer. Cancelling the link loses
                // nothing: the sandbox is stopped next. `let_go_of` reads the row first, so a request made before this line is
                // seen.
                let linked = tokio::select! {
                    linked = linking::link(&context, driver.as_ref(), row, &sandbox, RELINK_TIMEOUT) => linked,
                    requested = context.let_go_of(row) => return requested.map(|_| ()),
                    _ = context.verdicts.wait(&row.id) => return Ok(()),
                    () = &mut deadline => return Ok(()),
                };
                match linked {
                    Ok(machine) => {
                        self.linked = Some(LinkedMachine::new(machine));
                    }
                    Err(linking::NoLink::Dead) => return Ok(()),
                    Err(linking::NoLink::Late) => continue,
                }
            }
            let Some(machine) = self.publish(row) else { continue };
            // The machine's death, a request and the deadline end the hold; a lost link only has to be made again. All of them
            // only wait for a level, so cancelling them loses nothing.
            tokio::select! {
                () = machine.link().closed() => self.linked = None,
                () = driver.wait_dead(&sandbox) => return Ok(()),
                requested = context.let_go_of(row) => return requested.map(|_| ()),
                _ = context.verdicts.wait(&row.id) => return Ok(()),
                () = &mut deadline => return Ok(()),
            }
        }
    }

    /// Removes a deleted job: its machine, disk, blobs and rows, in this order. The row goes last, so that after a crash the next
    /// owner still finds the job and finishes the removal.
    pub(super) async fn delete(&mut self, row: JobRow) -> Result<NextStep, StoreError> {
        self.stop_present_sandbox(&row).await;
        self.context.config.fail_points.reach("deleting").await;
        self.remove_workspace(&row).await;
        self.remove_blobs(BlobScope::Job(row.id.clone())).await;
        self.context.recall.forget(&row.id).await;
        // Deletes the row of the sandbox that was just stopped. Otherwise `remove` keeps that row as one that is still to be
        // stopped.
        if row.sandbox_id.is_some() {
            self.commit(&row, Vec::new()).await?;
        }
        self.context.store.remove(&row.fence()).await?;
        // The log line is the last trace of the audit: the head lets a reader check a downloaded copy against it.
        let head = row.audit.as_ref().map(|audit| audit.head.as_str());
        tracing::info!(job = %row.id, head, "deleted");
        Ok(NextStep::Done)
    }

    /// Makes one log of each stream's chunks. After a failure the chunks stay, and reads use them.
    async fn consolidate(&self, row: &JobRow) {
        // The log exists beside the chunks for a moment.
        let bytes = [&row.stdout, &row.stderr].map(|stream| stream.bytes - stream.dropped).iter().sum();
        if !self.permit.may_store_result(bytes) {
            return tracing::warn!(job = %row.id, "the disk has no room to consolidate the log");
        }
        if let Err(error) = output::consolidate(&self.context.store, &self.context.blobs, row).await {
            tracing::warn!(job = %row.id, error = %ErrorChain(&error), "the log could not be consolidated");
        }
    }

    async fn remove_workspace(&self, row: &JobRow) {
        if let Err(error) = self.context.workspaces.remove(&row.id).await {
            tracing::warn!(job = %row.id, %error, "the workspace could not be removed");
        }
    }

    async fn remove_blobs(&self, scope: BlobScope) {
        if let Err(error) = self.context.blobs.remove_all(&scope).await {
            tracing::warn!(job = %scope.job(), error = %ErrorChain(&error), "blobs could not be removed");
        }
    }
}

/// True for a job that was ended because the yard's disk ran low.
pub(super) fn is_exhausted(row: &JobRow) -> bool {
    row.failure.as_ref().is_some_and(|failure| failure.code == FailureCode::DiskExhausted)
}
