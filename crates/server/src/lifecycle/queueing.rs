//! Claims queued jobs while there is room: oldest first, smaller ones past those that do not fit (`yard::WaitingLine`).
//!
//! A round looks at the oldest jobs of the queue. It reads rows only; a job's request, which may hold files of many MiB, is left
//! alone until the job starts.

use std::time::Instant;

use sandyard_protocol::ErrorChain;

use super::outcome::JobOutcome;
use super::owner::ClaimOrigin;
use super::reconciler::Reconciler;
use crate::drivers::{NoDriver, Outlook};
use crate::job::{Change, FailureCode, Floor, JobRow, JobWait, SandboxState};
use crate::store::StoreError;
use crate::yard::{QueueRound, SandboxRoom, YardContext};

/// Queued jobs read in one go.
const QUEUE_PAGE_JOBS: usize = 32;
/// Queued jobs that one round looks at. A round follows each sandbox that ends, so its work must not grow with the queue.
const QUEUE_ROUND_JOBS: usize = 256;

impl Reconciler {
    /// Starts queued jobs for which there is room.
    pub(super) async fn claim(&mut self) {
        if let Err(error) = self.claim_some().await {
            tracing::warn!(error = %ErrorChain(&error), "queued jobs could not be claimed");
        }
    }

    async fn claim_some(&mut self) -> Result<(), StoreError> {
        let context = std::sync::Arc::clone(&self.context);
        let mut round = context.line.round(Instant::now());
        let (mut seen, mut after) = (0, 0);
        // Ends early on a full host: no job of the queue can start, and each row would be read in vain.
        while seen < QUEUE_ROUND_JOBS && context.admission.shortage(SandboxRoom::SMALLEST).is_none() {
            let page = context.store.queued(after, QUEUE_PAGE_JOBS).await?;
            let Some(last) = page.last() else { break };
            after = last.number;
            seen += page.len();
            for row in page {
                if let Some(wait) = self.start_or_wait(&row, &round).await? {
                    round.waits(&row.id, wait);
                }
            }
        }
        round.end();
        Ok(())
    }

    /// Claims a queued job, or returns what it waits for. `None` if it has left the queue.
    async fn start_or_wait(
        &mut self,
        row: &JobRow,
        round: &QueueRound<'_>,
    ) -> Result<Option<JobWait>, StoreError> {
        if let Some(first) = round.held_by() {
            return Ok(Some(JobWait::Turn(Some(first.clone()))));
        }
        let limits = &row.limits.machine;
        // Before a driver is chosen, which may begin to try one.
        if let Some(shortage) = self.context.admission.shortage(YardContext::least_room(limits)) {
            return Ok(Some(JobWait::Room(shortage)));
        }
        let choice = match self.context.drivers.outlook(&Floor::parse(&row.requested_isolation)) {
            Outlook::Chosen(choice) => choice,
            Outlook::Trying(driver) => {
                return Ok(Some(JobWait::Driver(format!("the driver {driver} is being tried"))));
            }
            // A driver that has gone since the job was accepted may come back.
            Outlook::Nothing(error, missing_for) if missing_for < self.context.config.driver_patience => {
                tracing::warn!(job = %row.id, %error, "a queued job has to wait");
                return Ok(Some(JobWait::Driver(error.to_string())));
            }
            Outlook::Nothing(error, _) => return self.refuse(row, &error).await.map(|()| None),
        };
        // Room is taken before the claim. The other way round, a claimed job could find the host full and would have to be put
        // back.
        let permit = match self.context.admission.admit(self.context.room(choice.driver.as_ref(), limits)) {
            Ok(permit) => permit,
            Err(shortage) => return Ok(Some(JobWait::Room(shortage))),
        };
        let claim = self.context.claim(row, choice.driver.as_ref(), choice.reason)?;
        // `None`: the job was cancelled or claimed since the page was read. The permit is given back when it is dropped.
        if let Some(row) = self.context.store.claim_queued(&row.id, claim).await? {
            self.spawn(row, permit, ClaimOrigin::Queue);
        }
        Ok(None)
    }

    /// Ends a queued job that no driver can run.
    async fn refuse(&mut self, row: &JobRow, error: &NoDriver) -> Result<(), StoreError> {
        let hint = error.fix.as_deref().unwrap_or("run `sandyard doctor`");
        let outcome = JobOutcome::failed(FailureCode::NoDriver, error.to_string(), Some(hint));
        let changes = vec![
            Change::Ended { outcome: outcome.state, exit_code: None, failure: outcome.failure },
            Change::Sandbox(SandboxState::Gone),
            Change::Move { to: outcome.state, reason: outcome.reason },
        ];
        let claim = self.context.claim_with(changes);
        if let Some(row) = self.context.store.claim_queued(&row.id, claim).await? {
            let permit = self.context.admission.adopt(SandboxRoom::default());
            self.spawn(row, permit, ClaimOrigin::Queue);
        }
        Ok(())
    }
}
