//! The live machine of a job, for tools.

use std::sync::Arc;
use std::time::Duration;

use sandyard_sandbox::machine::Machine;
use tokio::time::Instant;

use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::auth::AccessScope;
use crate::job::{JobRow, JobState, SandboxState};

/// Keeper dials again within a second of losing its link; a busy machine may take a few.
const RELINK_TIMEOUT: Duration = Duration::from_secs(5);

impl Yard {
    /// Returns the live machine of a job. Waits for a machine that is starting, as long as the access says, and for one that
    /// is between two links after a restart of either side. Any other job without a live sandbox is a conflict at once.
    pub async fn machine(&self, job: &JobAccess) -> Result<Arc<Machine>, AppError> {
        job.require(AccessScope::UseSandbox)?;
        let begun = Instant::now();
        // Before the first look at machine and row: a change in between wakes the watch.
        let mut watch = self.context.store.watch(job.id());
        let mut machines = self.context.machines.watch();
        loop {
            if let Some(machine) = self.context.machines.get(job.id()) {
                return Ok(machine);
            }
            let row = self.row(job.id()).await?;
            let (patience, refusal) = absence(&row, job.sandbox_wait())?;
            let deadline = begun + patience;
            if Instant::now() >= deadline {
                return Err(refusal);
            }
            // All branches only wait, so cancelling one loses nothing; the loop looks again after each of them.
            tokio::select! {
                () = watch.changed() => {}
                () = machines.changed() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }
}

/// How long a call waits for the machine of this job, and the refusal after that. Fails if there is nothing to wait for.
fn absence(row: &JobRow, sandbox_wait: Duration) -> Result<(Duration, AppError), AppError> {
    let not_live = |message: &str, hint: &str| {
        AppError::new(ErrorCode::SandboxNotLive, message).hint(hint).retry_after(1)
    };
    // After a restart the owner exports over a link that tools never get.
    if row.state == JobState::Finishing {
        return Err(AppError::finishing());
    }
    match row.sandbox {
        SandboxState::Live => Ok((
            RELINK_TIMEOUT,
            not_live("the job's sandbox can't be reached now", "it may be dialling again; repeat the call"),
        )),
        SandboxState::None | SandboxState::Starting if !row.state.is_terminal() => Ok((
            sandbox_wait,
            not_live(
                "the job's sandbox is still starting",
                "repeat the call, or wait longer with `?wait=` in seconds; `waiting_for` in the status says what a queued job waits for",
            ),
        )),
        _ => Err(not_live(
            "the job has no sandbox any more",
            "tools need `sandbox: live` in the status; schedule with `keep` to use them after the end",
        )),
    }
}
