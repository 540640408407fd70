//! The phase `running`: begins the job, takes events and output from the guest, and ends the job when asked to.
//!
//! A lost link is made again, and the stream resumes from the committed position; `session` follows the job over one link. A
//! dead machine ends the job, because its process has begun and must not begin twice. A task has a journal and continues in
//! another machine. The host kills a guest that does not end in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_sandbox::driver::{Driver, Liveness, SandboxId};

use super::adopting::AdoptionTurn;
use super::deadlines::{EndDeadline, circumstances, running_backstop, time_left, waiting_backstop};
use super::linking::{self, NoLink};
use super::outcome::JobOutcome;
use super::owner::{JobOwner, LinkedMachine, NextStep, on};
use super::question_timeout::QuestionTimeout;
use super::restarting::MAX_TASK_MACHINES;
use super::session::{JobSession, SessionEnd};
use crate::clock::Clock;
use crate::job::{Change, FailureCode, JobRow, JobState, SandboxState, StoredEvent};
use crate::output::OutputRecorder;
use crate::store::StoreError;
use crate::yard;

/// Time that a guest has beyond the grace to report an end that was asked for.
const END_REPORT_TIMEOUT: Duration = Duration::from_secs(8);
/// Time for one attempt to link a machine again.
const RELINK_TIMEOUT: Duration = Duration::from_secs(5);

impl JobOwner {
    pub(super) async fn follow(&mut self, mut row: JobRow) -> Result<NextStep, StoreError> {
        let (Some(driver), Some(sandbox)) = (self.context.driver(&row), row.sandbox_id.clone()) else {
            let outcome = JobOutcome::driver_gone(&row);
            return on(self.end(&row, outcome).await?);
        };
        // Asked once and only about this sandbox: the answer is only counted. A machine whose liveness is unknown may link all
        // the same, and waiting here would keep the job from its link, its cancellation and its time limit.
        let adopted = std::mem::take(&mut self.adopted);
        let mut turn = if adopted { Some(AdoptionTurn::take(&self.context).await) } else { None };
        if adopted && matches!(driver.find(&sandbox).await, Ok(Some(Liveness::Alive))) {
            yard::count(&self.context.metrics.sandboxes_adopted);
        }
        let cap = self.context.config.output.stream_bytes;
        let blobs = Arc::clone(&self.context.blobs);
        let mut recorder = OutputRecorder::resume(&row, cap, self.context.store.as_ref(), blobs).await?;
        let mut backstop = self.backstop(&row).await?;
        loop {
            // A cancellation that came while no link was up must not wait for a guest that never dials again.
            if row.cancel_requested {
                backstop = backstop.min(self.cancel_backstop());
            }
            if let Some(verdict) = self.context.verdicts.about(&row.id) {
                return self.kill(driver.as_ref(), &sandbox, &row, JobOutcome::of_verdict(verdict)).await;
            }
            let linking = self.link_again(driver.as_ref(), &row, &sandbox, backstop.at);
            let linked = match turn.take() {
                Some(turn) => turn.hold_during(linking).await,
                None => linking.await,
            };
            let end = match linked {
                // Both lead to the checks below, which tell a slow machine from a dead one.
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
                SessionEnd::DiskLost => return self.disk_lost(row, driver.as_ref(), &sandbox).await,
                SessionEnd::Lost => self.linked = None,
            }
            // The deadline is checked before the liveness: a machine that is past its time is killed, whether it lives or not.
            if Instant::now() >= backstop.at {
                return self.kill(driver.as_ref(), &sandbox, &row, backstop.outcome).await;
            }
            let is_alive = still_alive(driver.as_ref(), &sandbox).await;
            // No session watched the row since the link was lost. The fresh row has requests of that time, and another epoch
            // means that another owner has the job: this one must not touch the machine any more.
            match self.context.store.any_job(&row.id).await? {
                Some(fresh) if fresh.epoch == row.epoch => row = fresh,
                _ => return Err(StoreError::Stale(row.id)),
            }
            if row.delete_requested {
                return on(row);
            }
            // A deletion comes first: another machine for a task that is being deleted would be made in vain.
            if !is_alive {
                return self.died(row, driver.as_ref()).await;
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
        let within = RELINK_TIMEOUT.min(until.saturating_duration_since(Instant::now()));
        let machine = linking::link(&self.context, driver, row, sandbox, within).await?;
        self.linked = Some(LinkedMachine::new(machine));
        Ok(())
    }

    pub(super) fn cancel_backstop(&self) -> EndDeadline {
        self.end_backstop(JobOutcome::cancelled())
    }

    /// The deadline of a guest that was asked to end its job.
    pub(super) fn end_backstop(&self, outcome: JobOutcome) -> EndDeadline {
        EndDeadline { at: Instant::now() + self.context.config.end_grace + END_REPORT_TIMEOUT, outcome }
    }

    /// The host's deadline for the job's time, or for its question while it waits.
    async fn backstop(&self, row: &JobRow) -> Result<EndDeadline, StoreError> {
        if row.state != JobState::Waiting {
            return Ok(running_backstop(row, self.context.clock));
        }
        let stored = self.context.store.request(&row.id).await?;
        let timeout = QuestionTimeout::of(&stored.ok_or(StoreError::Damaged { what: "request" })?.job);
        let until = timeout.until(row, self.context.clock).unwrap_or_else(Instant::now);
        Ok(waiting_backstop(until, timeout.seconds()))
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
        // Stopped before the end is committed. After a crash in between, the next owner finds a dead machine and decides by the
        // row (`died`).
        self.stop_sandbox(driver, sandbox).await;
        on(self.end(row, outcome).await?)
    }

    /// Handles the death of the machine. A task continues in another one, because its journal has everything it had done; every
    /// other job ends.
    async fn died(&mut self, row: JobRow, driver: &dyn Driver) -> Result<NextStep, StoreError> {
        let clock = self.context.clock;
        // A verdict may have been carried out by a server that died before it recorded it, or by the driver.
        if let Some(verdict) = self.context.verdicts.about(&row.id) {
            return on(self.end(&row, JobOutcome::of_verdict(verdict)).await?);
        }
        if may_have_another_machine(&row, clock) {
            return self.another_machine(row, driver).await;
        }
        on(self.end(&row, death(&row, clock)).await?)
    }

    /// Handles a disk that the sandbox can't write any more. Mounting it again repairs it, so a task continues in another
    /// machine. Every other job ends, and its files are saved through another machine.
    async fn disk_lost(
        &mut self,
        row: JobRow,
        driver: &dyn Driver,
        sandbox: &SandboxId,
    ) -> Result<NextStep, StoreError> {
        let outcome = JobOutcome::disk_lost();
        let text = "the disk of the sandbox became read-only, because the host lost writes to it".to_owned();
        tracing::warn!(job = %row.id, %sandbox, text);
        if may_have_another_machine(&row, self.context.clock) {
            let row = self.commit(&row, vec![Change::Event(StoredEvent::Note { text })]).await?;
            return self.another_machine(row, driver).await;
        }
        self.kill(driver, sandbox, &row, outcome).await
    }

    /// Commits the end of a job whose machine is gone.
    pub(super) async fn end(&mut self, row: &JobRow, outcome: JobOutcome) -> Result<JobRow, StoreError> {
        let usage = self.context.final_usage(row).await.filter(|_| row.usage.is_none());
        let mut changes: Vec<_> = usage.map(Change::Usage).into_iter().collect();
        changes.extend([
            // One commit: a job in `finishing` always has its outcome, and its sandbox is never shown as live.
            Change::Ended { outcome: outcome.state, exit_code: outcome.exit_code, failure: outcome.failure },
            Change::Sandbox(SandboxState::Gone),
            Change::Move { to: JobState::Finishing, reason: outcome.reason },
        ]);
        let ended = self.commit(row, changes).await?;
        self.context.verdicts.forget(&row.id);
        Ok(ended)
    }
}

/// True for a task that goes on when its machine is gone. One that was cancelled or has no time left does not: another machine
/// would only be ended.
fn may_have_another_machine(row: &JobRow, clock: Clock) -> bool {
    let over = row.cancel_requested || time_left(row, clock).is_zero();
    row.task.is_some() && !over && row.attempts < MAX_TASK_MACHINES
}

/// Returns the outcome of a job whose machine died.
fn death(row: &JobRow, clock: Clock) -> JobOutcome {
    if row.cancel_requested {
        return JobOutcome::cancelled();
    }
    if row.started_ms.is_some() && time_left(row, clock).is_zero() {
        return JobOutcome::timed_out(circumstances(row));
    }
    JobOutcome::failed(
        FailureCode::SandboxDied,
        "the sandbox died while the job was running",
        Some("the workspace was saved as it was; schedule the job again if it may run twice"),
    )
}

/// True if the machine lives. A lost link is often the first sign of a death, so the driver gets a moment to notice it.
async fn still_alive(driver: &dyn Driver, sandbox: &SandboxId) -> bool {
    let dead = tokio::time::timeout(Duration::from_millis(200), driver.wait_dead(sandbox)).await;
    dead.is_err()
}
