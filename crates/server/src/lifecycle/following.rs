//! The phase `running`: begin the job, take events and output from the guest, and end it when asked to.
//!
//! A lost link is made again and the stream resumed from what is committed; `session` is one link's worth. A dead machine
//! ends the job: its process has begun and is never begun twice. (A task has a journal and goes on in another one.) A guest that does not end in time is killed.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sandyard_sandbox::driver::{Driver, Liveness, SandboxId};

use super::linking::{self, NoLink};
use super::outcome::{EndCircumstances, JobOutcome};
use super::owner::{JobOwner, LinkedMachine, NextStep, on};
use super::question_timeout::{QuestionTimeout, waited};
use super::restarting::TASK_MACHINES;
use super::session::{JobSession, SessionEnd};
use crate::job::FailureCode;
use crate::job::{Change, JobRow};
use crate::job::{JobState, SandboxState};
use crate::output::OutputRecorder;
use crate::store::StoreError;
use crate::yard;

/// What the guest gets beyond the job's time before the host ends it.
const BACKSTOP: Duration = Duration::from_secs(20);
/// What a guest gets beyond the grace to report an end that was asked for.
const END_PATIENCE: Duration = Duration::from_secs(8);
/// How long a machine that lost its link is waited for at once.
const RELINK: Duration = Duration::from_secs(5);

/// When and as what the host ends a job that its guest did not end.
#[derive(Debug, Clone)]
pub(super) struct EndDeadline {
    pub(super) at: Instant,
    pub(super) outcome: JobOutcome,
}

impl JobOwner {
    pub(super) async fn follow(&mut self, mut row: JobRow) -> Result<NextStep, StoreError> {
        let (Some(driver), Some(sandbox)) = (self.context.driver(&row), row.sandbox_id()) else {
            let outcome = JobOutcome::driver_gone(&row);
            return on(self.end(&row, outcome).await?);
        };
        // Asked once: the answer is only counted. A machine whose liveness is unknown may link all the same, and waiting here would
        // keep the job from its link, its cancellation and its time limit.
        let adopted = std::mem::take(&mut self.adopted);
        if adopted && matches!(driver.liveness(&sandbox).await, Ok(Liveness::Alive)) {
            yard::count(&self.context.metrics.sandboxes_adopted);
        }
        let cap = self.context.config.output.stream_bytes;
        let blobs = Arc::clone(&self.context.blobs);
        let mut recorder = OutputRecorder::resume(&row, cap, self.context.store.as_ref(), blobs).await?;
        let mut backstop = self.backstop(&row).await?;
        loop {
            if row.cancel_requested {
                backstop = backstop.min(self.cancel_backstop());
            }
            let end = match self.link_again(driver.as_ref(), &row, &sandbox, backstop.at).await {
                Err(NoLink::Dead) => SessionEnd::Lost,
                Err(NoLink::Late) => SessionEnd::Lost,
                Ok(()) => JobSession::new(self, &mut row, &mut recorder, &mut backstop).run().await?,
            };
            match end {
                SessionEnd::Ended => return on(row),
                SessionEnd::Deleted(fresh) => return on(*fresh),
                SessionEnd::Refused(outcome) => {
                    return self.kill(driver.as_ref(), &sandbox, &row, outcome).await;
                }
                SessionEnd::Lost => self.linked = None,
            }
            if Instant::now() >= backstop.at {
                return self.kill(driver.as_ref(), &sandbox, &row, backstop.outcome).await;
            }
            let is_alive = still_alive(driver.as_ref(), &sandbox).await;
            match self.context.store.any_job(&row.id).await? {
                Some(fresh) if fresh.epoch == row.epoch => row = fresh,
                _ => return Err(StoreError::Stale(row.id)),
            }
            if row.delete_requested {
                return on(row);
            }
            if !is_alive {
                return self.died(row).await;
            }
        }
    }

    async fn link_again(
        &mut self,
        driver: &dyn Driver,
        row: &JobRow,
        sandbox: &SandboxId,
        until: Instant,
    ) -> Result<(), NoLink> {
        if self.linked.is_some() {
            return Ok(());
        }
        let within = RELINK.min(until.saturating_duration_since(Instant::now()));
        let machine = linking::link(&self.context, driver, row, sandbox, within).await?;
        self.linked = Some(LinkedMachine::new(machine));
        Ok(())
    }

    pub(super) fn cancel_backstop(&self) -> EndDeadline {
        self.end_backstop(JobOutcome::cancelled())
    }

    /// For a guest that was asked to end its job.
    pub(super) fn end_backstop(&self, outcome: JobOutcome) -> EndDeadline {
        EndDeadline { at: Instant::now() + self.context.config.end_grace + END_PATIENCE, outcome }
    }

    /// The host's own limit, should the guest not keep its own: on the job's time, or on its question's.
    async fn backstop(&self, row: &JobRow) -> Result<EndDeadline, StoreError> {
        if row.state != JobState::Waiting {
            return Ok(running_backstop(row));
        }
        let stored = self.context.store.request(&row.id).await?;
        let patience = QuestionTimeout::of(&stored.ok_or(StoreError::Damaged { what: "request" })?.job);
        let until = patience.until(row).unwrap_or_else(Instant::now);
        Ok(waiting_backstop(until, patience.seconds()))
    }

    /// Ends a job whose guest did not: the machine dies, its disk stays for the export.
    async fn kill(
        &mut self,
        driver: &dyn Driver,
        sandbox: &SandboxId,
        row: &JobRow,
        outcome: JobOutcome,
    ) -> Result<NextStep, StoreError> {
        tracing::warn!(%sandbox, reason = outcome.reason.as_deref(), "the host ends the sandbox");
        self.stop_sandbox(driver, sandbox).await;
        on(self.end(row, outcome).await?)
    }

    /// The machine is dead. What a task had done is in its journal, so that it can go on in another one.
    async fn died(&mut self, row: JobRow) -> Result<NextStep, StoreError> {
        let over = row.cancel_requested || time_left(&row).is_zero();
        if row.task.is_some() && !over && row.attempts < TASK_MACHINES {
            return self.another_machine(row).await;
        }
        on(self.end(&row, death(&row)).await?)
    }

    /// Commits the end of a job whose machine is gone.
    pub(super) async fn end(&mut self, row: &JobRow, outcome: JobOutcome) -> Result<JobRow, StoreError> {
        let changes = vec![
            Change::Ended { outcome: outcome.state, exit_code: outcome.exit_code, failure: outcome.failure },
            Change::Sandbox(SandboxState::Gone),
            Change::Move { to: JobState::Finishing, reason: outcome.reason },
        ];
        self.context.commit(row, changes).await
    }
}

impl EndDeadline {
    /// The earlier of two.
    pub(super) fn min(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }
}

/// The host's own limit on the job's time, should the guest not keep it.
pub(super) fn running_backstop(row: &JobRow) -> EndDeadline {
    let at = Instant::now() + time_left(row) + BACKSTOP;
    EndDeadline { at, outcome: JobOutcome::timed_out(circumstances(row)) }
}

/// The same for a question that waits until then, and for so many seconds.
pub(super) fn waiting_backstop(until: Instant, seconds: u64) -> EndDeadline {
    EndDeadline { at: until + BACKSTOP, outcome: JobOutcome::unanswered(seconds) }
}

/// What is left of the job's time.
pub(super) fn time_left(row: &JobRow) -> Duration {
    Duration::from_secs(row.limits.timeout_s).saturating_sub(elapsed(row))
}

/// How long the job has run and not waited, by the wall clock; a clock that jumped back counts as nothing.
fn elapsed(row: &JobRow) -> Duration {
    let started = row.started_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
    started.map_or(Duration::ZERO, |started| now().saturating_sub(started).saturating_sub(waited(row)))
}

/// Since the epoch, by the wall clock.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(super) fn circumstances(row: &JobRow) -> EndCircumstances<'_> {
    EndCircumstances { kind: row.kind, limits: &row.limits, usage: row.usage.as_ref(), disk_full: false }
}

/// What the death of a machine means.
fn death(row: &JobRow) -> JobOutcome {
    if row.cancel_requested {
        return JobOutcome::cancelled();
    }
    if row.started_ms.is_some() && time_left(row).is_zero() {
        return JobOutcome::timed_out(circumstances(row));
    }
    JobOutcome::failed(
        FailureCode::SandboxDied,
        "the sandbox died while the job was running",
        Some("the workspace was saved as it was; schedule the job again if it may run twice"),
    )
}

/// Whether the machine lives; one that is just dying gets a moment to be seen as dead.
async fn still_alive(driver: &dyn Driver, sandbox: &SandboxId) -> bool {
    let dead = tokio::time::timeout(Duration::from_millis(200), driver.wait_dead(sandbox)).await;
    dead.is_err()
}

/// Keeps the machine of a session alive in the reader's mind: a link is shared, not owned.
pub(super) type SharedMachine = Arc<sandyard_sandbox::machine::Machine>;
