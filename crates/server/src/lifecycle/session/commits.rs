//! Commits of a session. One is under way at a time; it holds everything received before it began. Only after it is done are its
//! events and output acknowledged, because the guest forgets acknowledged ones.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use sandyard_protocol::{Ack, ErrorChain, Exit};
use sandyard_sandbox::machine::GuestEventStream;

use super::{FLUSH_BYTES, FLUSH_DELAY, JobSession};
use crate::job::JobState;
use crate::job::{Change, JobRow};
use crate::lifecycle::deadlines::circumstances;
use crate::lifecycle::outcome::EndCircumstances;
use crate::lifecycle::task_gateways::TaskServices;
use crate::output::{Flush, Take};
use crate::store::StoreError;
use crate::yard::YardContext;

/// Pause before a commit that failed for want of disk or lock is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

impl JobSession<'_> {
    /// Begins a commit of everything received so far. Output for which the yard's disk has no room waits: the guest sends no
    /// more, and the job's pipe fills.
    pub(super) fn begin_commit_with_room(&mut self) {
        let stored: u64 =
            [&self.row.stdout, &self.row.stderr].map(|stream| stream.bytes - stream.dropped).iter().sum();
        let more = self.recorder.pending_bytes() as u64;
        if self.owner.permit.may_store_output(stored, more) {
            self.told_of_room = false;
            return self.begin_commit(Take::WholeCharacters);
        }
        if !std::mem::replace(&mut self.told_of_room, true) {
            self.note("the output waits: the yard's disk has no room for it");
        }
        let nothing = self.recorder.take_nothing();
        self.commit_flush(nothing);
        self.flush_by(Instant::now() + RETRY_DELAY);
    }

    /// Begins a commit of everything received so far, whether the disk has room or not.
    pub(super) fn begin_commit(&mut self, how: Take) {
        let flush = self.recorder.take(how);
        self.commit_flush(flush);
    }

    fn commit_flush(&mut self, flush: Flush) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.extend(flush.changes.iter().cloned());
        self.flush_at = None;
        self.last_flush = Some(Instant::now());
        // The flush times are reset above even so: otherwise the loop would come back at once, for ever.
        if changes.is_empty() {
            self.settled_next.clear();
            return;
        }
        self.settling.append(&mut self.settled_next);
        let (context, row, sequence) = (self.owner.context.clone(), self.row.clone(), self.sequence);
        self.pending = Some(
            async move {
                // Output files before the row that names them: a crash in between leaves files that no row names, never a hole
                // in a log.
                write_until_it_works(&flush).await;
                let row = commit_until_it_works(&context, &row, changes).await?;
                Ok((row, flush, sequence))
            }
            .boxed(),
        );
    }

    /// Acknowledges a commit that is done, and plans the next one if more came meanwhile.
    pub(super) async fn committed(
        &mut self,
        commit: (JobRow, Flush, u64),
        events: &mut GuestEventStream,
    ) -> Result<(), StoreError> {
        self.pending = None;
        self.settling.clear();
        let (row, flush, sequence) = commit;
        self.take_row(row, flush.bytes());
        self.owner.context.config.fail_points.reach("committed").await;
        // Acknowledged only after the commit: the guest forgets acknowledged output. A lost link is noticed by the next read.
        let output = self.row.guest_offsets(flush.offsets);
        let _ = events.acknowledge(&Ack { sequence, output }).await;
        flush.clean().await;
        if self.recorder.pending_bytes() > 0 {
            self.flush_by(self.last_flush.map_or_else(Instant::now, |last| last + FLUSH_DELAY));
        }
        if self.recorder.pending_bytes() >= FLUSH_BYTES {
            self.flush_by(Instant::now());
        }
        Ok(())
    }

    pub(super) fn take_row(&mut self, row: JobRow, bytes: u64) {
        // `look_at_row` may have read a newer row since this commit.
        if row.revision >= self.row.revision {
            *self.row = row;
        }
        self.owner.context.metrics.output_bytes.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        if self.row.state == JobState::Running {
            self.owner.publish(self.row);
        }
    }

    /// Commits everything received, so that a resume over the next link begins where the store ends.
    pub(super) async fn commit_rest(&mut self) -> Result<(), StoreError> {
        loop {
            if let Some(pending) = self.pending.take() {
                // Not acknowledged: the link is gone, and the next link's handshake reports the committed position.
                let (row, flush, _) = pending.await?;
                self.take_row(row, flush.bytes());
                flush.clean().await;
            }
            self.begin_commit(Take::WholeCharacters);
            if self.pending.is_none() {
                return Ok(());
            }
        }
    }

    /// Commits the end of the job's process together with the rest of its output.
    pub(super) async fn finish(
        &mut self,
        exit: Exit,
        events: &mut GuestEventStream,
    ) -> Result<(), StoreError> {
        // Bounds the last commit: the rest fits into one chunk.
        while self.recorder.pending_bytes() > crate::output::CHUNK_BYTES {
            self.begin_commit(Take::WholeCharacters);
            self.commit_rest().await?;
        }
        // The job passes through `running` even if its end came before its start was committed.
        self.started();
        let usage = self.owner.context.final_usage(self.row).await;
        // The journal's service commits beside this session, so the task's result may be newer than the session's row.
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
        // Model calls that are still queued: their cost belongs to this job.
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
        // One commit with the rest of the output: a reader that sees the end also sees all output.
        changes.push(Change::Move { to: JobState::Finishing, reason: outcome.reason });
        write_until_it_works(&flush).await;
        let row = commit_until_it_works(&self.owner.context, self.row, changes).await?;
        self.take_row(row, flush.bytes());
        let output = self.row.guest_offsets(flush.offsets);
        let _ = events.acknowledge(&Ack { sequence: self.sequence, output }).await;
        flush.clean().await;
        Ok(())
    }
}

/// Writes output files. A full disk delays the job and loses none of its output.
async fn write_until_it_works(flush: &Flush) {
    while let Err(error) = flush.write().await {
        tracing::warn!(error = %ErrorChain(&error), "output could not be written, trying again");
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Commits; a database that is locked or full delays the job.
async fn commit_until_it_works(
    context: &YardContext,
    row: &JobRow,
    changes: Vec<Change>,
) -> Result<JobRow, StoreError> {
    loop {
        match context.commit(row, changes.clone()).await {
            Err(error @ StoreError::Unavailable(_)) => {
                tracing::warn!(error = %ErrorChain(&error), "a commit failed, trying again");
                tokio::time::sleep(RETRY_DELAY).await;
            }
            other => return other,
        }
    }
}
