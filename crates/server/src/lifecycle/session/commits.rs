//! Commits of a session: one under way at a time, begun with what has come so far and told to the guest when it is done.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sandyard_protocol::{Ack, Exit};
use sandyard_sandbox::machine::GuestEventStream;

use super::{FLUSH_AFTER, FLUSH_BYTES, JobSession};
use crate::error_chain::chain;
use crate::job::JobState;
use crate::job::{Change, JobRow};
use crate::lifecycle::following::circumstances;
use crate::lifecycle::outcome::EndCircumstances;
use crate::lifecycle::task_gateways::TaskServices;
use crate::output::{Flush, Take};
use crate::store::StoreError;
use crate::yard::YardContext;

/// Pause before a commit that failed for want of disk or lock is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// A commit under way, and what it commits.
pub(super) type PendingCommit = BoxFuture<'static, Result<(JobRow, Flush, u64), StoreError>>;

impl JobSession<'_> {
    /// Begins a commit of what has come so far.
    pub(super) fn take_off(&mut self, how: Take) {
        let flush = self.recorder.take(how);
        let mut changes = std::mem::take(&mut self.changes);
        changes.extend(flush.changes.iter().cloned());
        self.flush_at = None;
        self.last_flush = Some(Instant::now());
        if changes.is_empty() {
            return;
        }
        let (context, row, sequence) = (self.owner.context.clone(), self.row.clone(), self.sequence);
        self.flight = Some(
            async move {
                write_patiently(&flush).await;
                let row = commit_patiently(&context, &row, changes).await?;
                Ok((row, flush, sequence))
            }
            .boxed(),
        );
    }

    /// A commit is done: tell the guest, and go on with what came meanwhile.
    pub(super) async fn landed(
        &mut self,
        landed: (JobRow, Flush, u64),
        events: &mut GuestEventStream,
    ) -> Result<(), StoreError> {
        self.flight = None;
        let (row, flush, sequence) = landed;
        self.arrived(row, flush.bytes());
        self.owner.context.config.fail_points.reach("committed").await;
        // A link that is gone is noticed by the next read.
        let output = self.row.guest_offsets(flush.offsets);
        let _ = events.acknowledge(&Ack { sequence, output }).await;
        flush.clean().await;
        if self.recorder.pending_bytes() > 0 {
            self.flush_by(self.last_flush.map_or_else(Instant::now, |last| last + FLUSH_AFTER));
        }
        if self.recorder.pending_bytes() >= FLUSH_BYTES {
            self.flush_by(Instant::now());
        }
        Ok(())
    }

    pub(super) fn arrived(&mut self, row: JobRow, bytes: u64) {
        // A look at the row may have been later than this commit.
        if row.revision >= self.row.revision {
            *self.row = row;
        }
        self.owner.context.metrics.output_bytes.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        if self.row.state == JobState::Running {
            self.owner.publish(self.row);
        }
    }

    /// Commits everything that was received, before the link is made again.
    pub(super) async fn settle(&mut self) -> Result<(), StoreError> {
        loop {
            if let Some(flight) = self.flight.take() {
                let (row, flush, _) = flight.await?;
                self.arrived(row, flush.bytes());
                flush.clean().await;
            }
            self.take_off(Take::WholeCharacters);
            if self.flight.is_none() {
                return Ok(());
            }
        }
    }

    /// The job's process has ended and all its output is here: the last commit of this phase.
    pub(super) async fn finish(
        &mut self,
        exit: Exit,
        events: &mut GuestEventStream,
    ) -> Result<(), StoreError> {
        while self.recorder.pending_bytes() > crate::output::CHUNK_BYTES {
            self.take_off(Take::WholeCharacters);
            self.settle().await?;
        }
        self.started();
        let usage = usage(&self.owner.context, self.row).await;
        let latest = self.owner.context.store.any_job(&self.row.id).await?;
        let latest = latest.ok_or_else(|| StoreError::Stale(self.row.id.clone()))?;
        let around = EndCircumstances {
            usage: usage.as_ref(),
            disk_full: self.recorder.complained_of_full_disk(),
            ..circumstances(self.row)
        };
        let outcome = self.outcome(exit, around, &latest);
        let flush = self.recorder.take(Take::AllOfIt);
        let mut changes = std::mem::take(&mut self.changes);
        changes.extend(self.owner.agent.iter_mut().flat_map(TaskServices::rest));
        changes.extend(flush.changes.iter().cloned());
        changes.extend(usage.map(Change::Usage));
        changes.push(Change::Ended {
            outcome: outcome.state,
            exit_code: outcome.exit_code,
            failure: match &self.owner.egress_log {
                Some(egress_log) => egress_log.explain(outcome.failure),
                None => outcome.failure,
            },
        });
        changes.push(Change::Move { to: JobState::Finishing, reason: outcome.reason });
        write_patiently(&flush).await;
        let row = commit_patiently(&self.owner.context, self.row, changes).await?;
        self.arrived(row, flush.bytes());
        let output = self.row.guest_offsets(flush.offsets);
        let _ = events.acknowledge(&Ack { sequence: self.sequence, output }).await;
        flush.clean().await;
        Ok(())
    }
}

/// What the machine used so far, if that can be had.
async fn usage(context: &YardContext, row: &JobRow) -> Option<sandyard_sandbox::driver::Usage> {
    let driver = context.driver(row)?;
    let sandbox = row.sandbox_id()?;
    let usage = tokio::time::timeout(Duration::from_secs(2), driver.usage(&sandbox)).await.ok()?;
    usage.inspect_err(|error| tracing::warn!(error = %chain(error), "no usage")).ok()
}

/// The commit under way, once it is done.
pub(super) async fn landing(flight: &mut Option<PendingCommit>) -> Result<(JobRow, Flush, u64), StoreError> {
    match flight {
        Some(flight) => flight.await,
        None => std::future::pending().await,
    }
}

/// A full disk holds the job up, it does not lose its output.
async fn write_patiently(flush: &Flush) {
    while let Err(error) = flush.write().await {
        tracing::warn!(error = %chain(&error), "output could not be written, trying again");
        tokio::time::sleep(RETRY).await;
    }
}

async fn commit_patiently(
    context: &YardContext,
    row: &JobRow,
    changes: Vec<Change>,
) -> Result<JobRow, StoreError> {
    loop {
        match context.commit(row, changes.clone()).await {
            Err(error @ StoreError::Database(_)) if error.is_transient() => {
                tracing::warn!(error = %chain(&error), "a commit failed, trying again");
                tokio::time::sleep(RETRY).await;
            }
            other => return other,
        }
    }
}
