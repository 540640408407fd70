//! The phase `starting`: makes a machine (`making`), links it, and prepares its workspace (`preparing`).
//!
//! The row of a sandbox is committed before its machine is made. The row says `begun` before the guest is ordered to begin, so a
//! process never begins twice. Until then a machine that fails is replaced, a few times.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_sandbox::driver::{Driver, SandboxId, SandboxSpec};
use sandyard_sandbox::machine::{GuestEventStream, Machine};

use super::linking::{self, FoundAlive};
use super::making::{spec, start_machine};
use super::outcome::JobOutcome;
use super::owner::{JobOwner, LinkedMachine, NextStep, on};
use super::preparing::prepare;
use super::start_failure::StartFailure;
use crate::job::FailureCode;
use crate::job::SandboxState;
use crate::job::{Change, JobRow, Purpose};
use crate::store::StoreError;
use crate::yard;
use crate::yard::YardContext;

/// Delay before a job that found the host full is put back into the queue.
const FULL_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Owners that may die while they start a job. Beyond that the job itself is taken for the cause of their deaths.
const MAX_OWNERS: u64 = 30;

impl JobOwner {
    pub(super) async fn start(&mut self, row: JobRow) -> Result<NextStep, StoreError> {
        let Some(driver) = self.context.driver(&row) else {
            let outcome = JobOutcome::driver_gone(&row);
            return self.end_unstarted(row, outcome).await;
        };
        let Some(sandbox) = row.sandbox_id.clone() else {
            return self.next_sandbox(row, driver.as_ref()).await;
        };
        // The process may run. This owner must follow it and not make another machine, in which it would begin twice.
        if row.begun {
            return self.follow(row).await;
        }
        if std::mem::take(&mut self.adopted) && self.is_spoilt(driver.as_ref(), &row, &sandbox).await {
            self.stop_sandbox(driver.as_ref(), &sandbox).await;
            return self
                .not_started(
                    row,
                    driver.as_ref(),
                    StartFailure::Again("its owner died while it was made".into()),
                )
                .await;
        }
        let context = Arc::clone(&self.context);
        let began = Instant::now();
        // A cancellation must not wait for a boot or a clone. Cancelling `bring_up` may leave a machine half made, or a commit of
        // `begun` under way. Stopping the sandbox covers both: its row is stored, and `end_unstarted` resets `begun`.
        let brought_up = tokio::select! {
            up = bring_up(&context, driver.as_ref(), row.clone(), &sandbox) => up,
            requested = self.requested(&row) => {
                let row = requested?;
                self.stop_sandbox(driver.as_ref(), &sandbox).await;
                return if row.delete_requested { on(row) } else { self.end_unstarted(row, JobOutcome::cancelled()).await };
            }
            // A repository that is being cloned can fill a disk too.
            verdict = context.verdicts.wait(&row.id) => {
                self.stop_sandbox(driver.as_ref(), &sandbox).await;
                return self.end_unstarted(row, JobOutcome::of_verdict(verdict)).await;
            }
        };
        match brought_up {
            Ok((row, machine, events)) => {
                let mut linked = LinkedMachine::new(machine);
                linked.events = events;
                self.linked = Some(linked);
                self.context.metrics.started(began.elapsed());
                self.follow(row).await
            }
            Err(failure) => {
                yard::count(&self.context.metrics.sandbox_starts_failed);
                // A commit that failed may be stored all the same, and then only this machine may run the job. Or the job has
                // another owner by now, and so has the machine.
                if !matches!(failure, StartFailure::Store(_)) {
                    self.stop_sandbox(driver.as_ref(), &sandbox).await;
                }
                self.not_started(row, driver.as_ref(), failure).await
            }
        }
    }

    /// True if an earlier owner left the machine half made. A machine that was never begun is made now, and does not count
    /// as an attempt, unless that happened too often to be chance.
    async fn is_spoilt(&self, driver: &dyn Driver, row: &JobRow, sandbox: &SandboxId) -> bool {
        row.epoch > MAX_OWNERS || linking::find(driver, sandbox).await == Some(FoundAlive::No)
    }

    async fn not_started(
        &mut self,
        row: JobRow,
        driver: &dyn Driver,
        failure: StartFailure,
    ) -> Result<NextStep, StoreError> {
        match failure {
            StartFailure::Store(error) => Err(error),
            StartFailure::Never(outcome) => self.end_unstarted(row, outcome).await,
            StartFailure::Full(detail) => {
                // Without a pause, a full host would be asked in a tight loop: the wake below leads to the next claim.
                tokio::time::sleep(FULL_RETRY_DELAY).await;
                self.context.store.requeue(&row.fence(), detail).await?;
                // After the commit: the loop must find the job in the queue.
                self.context.wake.notify_one();
                Ok(NextStep::Done)
            }
            StartFailure::Again(detail)
                if row.attempts < self.context.config.start_attempts && row.epoch <= MAX_OWNERS =>
            {
                tracing::warn!(job = %row.id, detail, "the sandbox did not come up, making another");
                self.next_sandbox(row, driver).await
            }
            StartFailure::Again(detail) => {
                let message = format!("no sandbox came up in {} attempts: {detail}", row.attempts);
                let outcome = JobOutcome::failed(
                    FailureCode::SandboxStartFailed,
                    message,
                    Some("run `sandyard doctor`"),
                );
                self.end_unstarted(row, outcome).await
            }
        }
    }

    /// Gives the job another sandbox. The previous one must be stopped: its row goes with this commit.
    async fn next_sandbox(&mut self, row: JobRow, driver: &dyn Driver) -> Result<NextStep, StoreError> {
        let change = self.context.new_sandbox(&row, driver, Purpose::Run)?;
        on(self.commit(&row, vec![change]).await?)
    }

    /// Ends a job whose process never began and whose sandbox is gone.
    async fn end_unstarted(&mut self, row: JobRow, outcome: JobOutcome) -> Result<NextStep, StoreError> {
        // One commit, straight to the last state: nothing ran, so there is no workspace to export.
        let changes = vec![
            Change::Ended { outcome: outcome.state, exit_code: None, failure: outcome.failure },
            Change::Begun(false),
            Change::Sandbox(SandboxState::Gone),
            Change::Move { to: outcome.state, reason: outcome.reason },
        ];
        on(self.commit(&row, changes).await?)
    }
}

async fn bring_up(
    context: &YardContext,
    driver: &dyn Driver,
    mut row: JobRow,
    sandbox: &SandboxId,
) -> Result<(JobRow, Arc<Machine>, Option<GuestEventStream>), StartFailure> {
    let spec = spec(context, driver, &mut row, sandbox).await?;
    context.config.fail_points.reach("start").await;
    // The row of the sandbox was committed before this phase began, so a machine that is made here can always be found.
    start_machine(context, driver, &spec).await?;
    yard::count(&context.metrics.sandboxes_started);
    context.config.fail_points.reach("started").await;
    let request = context.store.request(&row.id).await?.ok_or(StoreError::Damaged { what: "request" })?;
    let link = async {
        let linked = linking::link_first(context, driver, &row, sandbox).await;
        linked.map_err(StartFailure::from)
    };
    let (row, machine, events) = if request.files.is_empty() && request.job.git.is_none() {
        // The commit and the boot take about as long, and neither needs the other. The order to begin is sent later, by the
        // session, so `begun` is committed before it.
        let (begun, machine) = tokio::join!(context.commit(&row, begun(&spec)), link);
        (begun?, machine?, None)
    } else {
        // `begun` comes after the files: an owner that takes over a begun job does not write them again.
        let machine = link.await?;
        let (row, events) = prepare(context, row, &machine, &request).await?;
        context.config.fail_points.reach("written").await;
        (context.commit(&row, begun(&spec)).await?, machine, events)
    };
    context.config.fail_points.reach("linked").await;
    Ok((row, machine, events))
}

/// The changes after which the job's process may begin in a machine of this specification.
fn begun(spec: &SandboxSpec) -> Vec<Change> {
    vec![Change::Begun(true), Change::SandboxImage(spec.image.clone())]
}

/// Makes another machine for a task that has begun. Writes no files, and the row stays in its state.
pub(super) async fn bring_up_again(
    context: &YardContext,
    driver: &dyn Driver,
    mut row: JobRow,
    sandbox: &SandboxId,
) -> Result<Result<(JobRow, Arc<Machine>), String>, StoreError> {
    let up = async {
        let spec = spec(context, driver, &mut row, sandbox).await?;
        start_machine(context, driver, &spec).await?;
        yard::count(&context.metrics.sandboxes_started);
        // Before the session can send the order to begin, as in `bring_up`.
        let begun = context.commit(&row, begun(&spec)).await?;
        let machine = linking::link_first(context, driver, &begun, sandbox).await?;
        Ok::<_, StartFailure>((begun, machine))
    };
    match up.await {
        Ok(up) => Ok(Ok(up)),
        Err(StartFailure::Store(error)) => Err(error),
        Err(failure) => Ok(Err(failure.words())),
    }
}

/// Makes a machine on the workspace of one that died, to export the workspace. The job's process does not begin in it.
pub(super) async fn bring_up_rescue(
    context: &YardContext,
    driver: &dyn Driver,
    row: &mut JobRow,
    sandbox: &SandboxId,
) -> Result<Arc<Machine>, String> {
    let spec = spec(context, driver, row, sandbox).await.map_err(StartFailure::words)?;
    start_machine(context, driver, &spec).await.map_err(StartFailure::words)?;
    linking::link_first(context, driver, row, sandbox)
        .await
        .map_err(|no_link| format!("the machine did not come up ({no_link:?})"))
}
