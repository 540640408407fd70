//! Another machine for a task whose machine died: the workspace's disk and the journal are there, processes and kernels are not.
//!
//! The row stays in `running` or `waiting`; its sandbox is `starting` meanwhile. The files of the request are not written
//! again: the disk has them, as the job has changed them since.

use std::sync::Arc;
use std::time::Duration;

use sandyard_sandbox::driver::Driver;

use super::outcome::JobOutcome;
use super::owner::{JobOwner, LinkedMachine, NextStep, on};
use super::starting::bring_up_again;
use crate::job::FailureCode;
use crate::job::SandboxState;
use crate::job::{Change, JobRow, Purpose, StoredEvent};
use crate::store::StoreError;

/// Machines that one task may have.
pub(super) const MAX_TASK_MACHINES: u32 = 5;
/// Delay before another machine is made: the cause of the death may need a moment to pass.
const RESTART_DELAY: Duration = Duration::from_millis(500);

impl JobOwner {
    /// True if the task waits for another machine.
    pub(super) fn is_restarting(row: &JobRow) -> bool {
        row.task.is_some() && row.sandbox == SandboxState::Starting && !row.begun
    }

    /// Gives the task another sandbox. The previous machine must be dead.
    pub(super) async fn another_machine(
        &mut self,
        row: JobRow,
        driver: &dyn Driver,
    ) -> Result<NextStep, StoreError> {
        tracing::warn!(job = %row.id, attempts = row.attempts, "the sandbox died; the task goes on in another one");
        // Also for a dead machine: its driver removes mounts and devices before another machine uses the disk.
        self.stop_present_sandbox(&row).await;
        let text = "the sandbox died; the task goes on in another one, its processes and kernels are gone";
        let changes = vec![
            self.context.new_sandbox(&row, driver, Purpose::Run)?,
            Change::Event(StoredEvent::Note { text: text.to_owned() }),
        ];
        on(self.commit(&row, changes).await?)
    }

    /// Makes the machine of the task's sandbox.
    pub(super) async fn start_again(&mut self, row: JobRow) -> Result<NextStep, StoreError> {
        let (Some(driver), Some(sandbox)) = (self.context.driver(&row), row.sandbox_id.clone()) else {
            let outcome = JobOutcome::driver_gone(&row);
            return on(self.end(&row, outcome).await?);
        };
        let context = Arc::clone(&self.context);
        // A cancellation must not wait for a boot. Cancelling `bring_up_again` may leave a machine half made; its row is
        // committed, so stopping the sandbox removes every part of it.
        let brought_up = tokio::select! {
            up = bring_up_again(&context, driver.as_ref(), row.clone(), &sandbox) => up?,
            requested = self.requested(&row) => {
                let row = requested?;
                self.stop_sandbox(driver.as_ref(), &sandbox).await;
                return if row.delete_requested { on(row) } else { on(self.end(&row, JobOutcome::cancelled()).await?) };
            }
        };
        match brought_up {
            Ok((row, machine)) => {
                self.linked = Some(LinkedMachine::new(machine));
                self.follow(row).await
            }
            Err(detail) if row.attempts < MAX_TASK_MACHINES => {
                tracing::warn!(job = %row.id, detail, "the sandbox did not come up, making another");
                tokio::time::sleep(RESTART_DELAY).await;
                self.another_machine(row, driver.as_ref()).await
            }
            Err(detail) => {
                self.stop_sandbox(driver.as_ref(), &sandbox).await;
                let message = format!("the sandbox died, and no other one came up: {detail}");
                let outcome =
                    JobOutcome::failed(FailureCode::SandboxDied, message, Some("run `sandyard doctor`"));
                on(self.end(&row, outcome).await?)
            }
        }
    }
}
