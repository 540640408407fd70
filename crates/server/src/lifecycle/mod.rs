//! Makes the world match the rows: one loop that claims, holds leases and cleans, and one task for each job it owns.
//!
//! Every task is owned by the loop, which can end it at any await; the next owner continues from the row. A lease can run out
//! here, for example while the process is suspended. The loop then drops the job's task and claims the job anew with a higher
//! epoch, so that the store refuses every write of the old task.

mod adopting;
mod closing;
mod egress_log;
mod finishing;
mod following;
mod guest_scripts;
mod linking;
mod making;
mod outcome;
mod owner;
mod patch;
mod preparing;
mod question_timeout;
mod restarting;
mod retention;
mod session;
mod starting;
mod task_gateways;

use std::collections::HashMap;
use std::sync::Arc;

use sandyard_protocol::ErrorChain;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use self::outcome::JobOutcome;
use self::owner::{ClaimOrigin, JobOwner};
use crate::drivers::{DriverChoice, NoDriver, Outlook};
use crate::job::FailureCode;
use crate::job::Floor;
use crate::job::JobId;
use crate::job::SandboxState;
use crate::job::{Change, JobRow};
use crate::store::StoreError;
use crate::yard;
use crate::yard::Permit;
use crate::yard::YardContext;

pub(crate) use adopting::remove_strays;

/// Queued jobs read in one go when room is there.
const CLAIM_PAGE: usize = 32;

/// A job that was claimed as it was stored, with its room.
pub(crate) type ClaimedJob = (Box<JobRow>, Permit);

/// The loop of one server. It owns a task for each job whose lease this server holds.
pub(crate) struct Reconciler {
    context: Arc<YardContext>,
    claimed: mpsc::Receiver<ClaimedJob>,
    tasks: JoinSet<(JobId, u64)>,
    owned: HashMap<JobId, OwnedJob>,
    drivers_tried: bool,
}

struct OwnedJob {
    epoch: u64,
    task: AbortHandle,
}

impl Reconciler {
    pub(crate) fn new(context: Arc<YardContext>, claimed: mpsc::Receiver<ClaimedJob>) -> Self {
        Self { context, claimed, tasks: JoinSet::new(), owned: HashMap::new(), drivers_tried: false }
    }

    /// Works until `stop` is cancelled, then lets go of every job. Dropping the future instead is a crash.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let config = self.context.config.clone();
        let mut heartbeat = tokio::time::interval(config.lease.heartbeat);
        // `Delay`: after a suspend one tick is enough; a burst of them would only repeat the same work.
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut cleaning =
            tokio::time::interval_at(Instant::now() + config.retention.interval, config.retention.interval);
        cleaning.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let wake = Arc::clone(&self.context);
        loop {
            // The heartbeat must not starve, or every lease of this server runs out. A branch runs to its end before the next
            // is picked, so no branch may wait for a sandbox: that is the work of the tasks. Cancelling the waits loses
            // nothing: queue, ticks, notices and ended tasks are kept by their sources until they are taken.
            tokio::select! {
                () = stop.cancelled() => break,
                _ = heartbeat.tick() => self.beat().await,
                Some((row, permit)) = self.claimed.recv() => self.spawn(*row, permit, ClaimOrigin::Queue),
                Some(ended) = self.tasks.join_next() => self.ended(ended.ok()),
                () = wake.wake.notified() => {
                    self.claim().await;
                    self.try_drivers();
                }
                () = wake.orphaned.notified() => self.take_orphans().await,
                _ = cleaning.tick() => {
                    retention::sweep(&wake).await;
                    self.take_orphans().await;
                    self.remove_sandboxes().await;
                }
            }
        }
        // Only here: dropping the future leaves the leases to run out, as a crash does.
        self.let_go().await;
    }

    /// Renews the leases of this server, lets go of jobs that it has lost, and takes jobs that nobody owns.
    async fn beat(&mut self) {
        let kept = match self.context.store.renew(&self.context.owner, self.context.ttl_ms()).await {
            Ok(kept) => kept,
            // Tasks go on: until the leases run out nobody else can take the jobs, and afterwards the store refuses their writes.
            Err(error) => {
                return tracing::warn!(error = %ErrorChain(&error), "the leases could not be renewed");
            }
        };
        let kept: HashMap<&JobId, u64> = kept.iter().map(|fence| (&fence.job, fence.epoch)).collect();
        let lost: Vec<JobId> = self
            .owned
            .iter()
            .filter(|(job, owned)| kept.get(job) != Some(&owned.epoch))
            .map(|(job, _)| job.clone())
            .collect();
        // Lost jobs are dropped before orphans are taken: the same job may be taken back, and its old task must not write
        // beside the new one.
        for job in lost {
            self.lose(&job).await;
        }
        self.take_orphans().await;
        self.claim().await;
        self.try_drivers();
    }

    /// Tries drivers before the first job comes, one after the other, until one is found that most jobs will get.
    fn try_drivers(&mut self) {
        if !self.drivers_tried {
            let outlook = self.context.drivers.outlook(&Floor::Any);
            self.drivers_tried = !matches!(outlook, Outlook::Trying(_));
        }
    }

    /// Ends the task of a job whose lease is gone. A job that is done has no lease either, so it is left alone.
    async fn lose(&mut self, job: &JobId) {
        let still_open = matches!(self.context.store.any_job(job).await, Ok(Some(row)) if row.open);
        if let Some(owned) = self.owned.get(job).filter(|_| still_open) {
            tracing::warn!(%job, "the lease ran out; letting go of the job");
            yard::count(&self.context.metrics.leases_lost);
            owned.task.abort();
        }
    }

    /// Takes jobs that have an unfinished life and no owner.
    async fn take_orphans(&mut self) {
        match self.context.store.claim_orphans(&self.context.owner, self.context.ttl_ms()).await {
            Ok(rows) => {
                for row in rows {
                    let machine = &row.limits.machine;
                    let memory_mib = self.context.driver(&row).map_or(machine.memory_mib, |driver| {
                        self.context.memory_mib(driver.as_ref(), machine)
                    });
                    // Adopted without asking for room: the machine runs already, so refusing it would not free anything.
                    let permit = self.context.admission.adopt(memory_mib);
                    tracing::info!(job = %row.id, state = row.state.as_str(), epoch = row.epoch, "took over a job");
                    self.spawn(row, permit, ClaimOrigin::Orphan);
                }
            }
            Err(error) => {
                tracing::warn!(error = %ErrorChain(&error), "jobs without an owner could not be claimed")
            }
        }
    }

    /// Stops sandboxes that jobs have left and that could not be stopped then.
    async fn remove_sandboxes(&self) {
        if let Err(error) = adopting::remove_unneeded_sandboxes(&self.context).await {
            tracing::warn!(error = %ErrorChain(&error), "sandboxes could not be looked through");
        }
    }

    /// Starts queued jobs, oldest first, while there is room. The first job that does not fit ends the round, so that small jobs
    /// can't starve a large one.
    async fn claim(&mut self) {
        if let Err(error) = self.claim_some().await {
            tracing::warn!(error = %ErrorChain(&error), "queued jobs could not be claimed");
        }
    }

    async fn claim_some(&mut self) -> Result<(), StoreError> {
        let mut seen = 0;
        loop {
            let queued = self.context.store.queued(seen, CLAIM_PAGE).await?;
            let Some(last) = queued.last() else { return Ok(()) };
            seen = last.number;
            for row in queued {
                if !self.context.admission.has_room(row.limits.machine.memory_mib) {
                    return Ok(());
                }
                let Some(choice) = self.choose(&row).await? else { continue };
                let memory_mib = self.context.memory_mib(choice.driver.as_ref(), &row.limits.machine);
                // Room is taken before the claim. The other way round, a claimed job could find the host full and would have to
                // be put back.
                let Some(permit) = self.context.admission.admit(memory_mib) else { return Ok(()) };
                let claim = self.context.claim(&row, choice.driver.as_ref(), choice.reason)?;
                // `None`: the job was cancelled or claimed since the page was read. The permit is given back when it is dropped.
                if let Some(row) = self.context.store.claim_queued(&row.id, claim).await? {
                    self.spawn(row, permit, ClaimOrigin::Queue);
                }
            }
        }
    }

    /// Returns the driver for a queued job, without waiting for one to be tried. A job whose driver has gone since it was
    /// accepted stays in the queue for a while, in case the driver comes back, and fails then.
    async fn choose(&mut self, row: &JobRow) -> Result<Option<DriverChoice>, StoreError> {
        let request =
            self.context.store.request(&row.id).await?.ok_or(StoreError::Damaged { what: "request" })?;
        match self.context.drivers.outlook(&request.job.isolation) {
            Outlook::Chosen(choice) => return Ok(Some(choice)),
            Outlook::Trying(driver) => {
                tracing::debug!(job = %row.id, driver, "waits for a driver to be tried")
            }
            Outlook::Nothing(error, missing_for) if missing_for < self.context.config.driver_patience => {
                tracing::warn!(job = %row.id, %error, "a queued job has to wait");
            }
            Outlook::Nothing(error, _) => self.refuse(row, &error).await?,
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
            let permit = self.context.admission.adopt(0);
            self.spawn(row, permit, ClaimOrigin::Queue);
        }
        Ok(())
    }

    fn spawn(&mut self, row: JobRow, permit: Permit, origin: ClaimOrigin) {
        if let Some(old) = self.owned.remove(&row.id) {
            // At most one task for each job. The old one has a lower epoch, so a write that it has sent already is refused.
            old.task.abort();
        }
        let (job, epoch) = (row.id.clone(), row.epoch);
        let task = JobOwner::new(Arc::clone(&self.context), &row, permit, origin);
        let key = (job.clone(), epoch);
        let handle = self.tasks.spawn(async move {
            task.run(row).await;
            key
        });
        self.owned.insert(job, OwnedJob { epoch, task: handle });
    }

    fn ended(&mut self, key: Option<(JobId, u64)>) {
        match key {
            Some((job, epoch)) => {
                // The epoch tells the task that ended from a newer one of the same job.
                if self.owned.get(&job).is_some_and(|owned| owned.epoch == epoch) {
                    self.owned.remove(&job);
                }
            }
            // The task was aborted or panicked, so its key is lost.
            None => self.owned.retain(|_, owned| !owned.task.is_finished()),
        }
    }

    /// Ends all tasks, then gives the leases back, so that no task writes after the release. Jobs continue in their sandboxes,
    /// and the next server adopts them.
    async fn let_go(&mut self) {
        self.tasks.shutdown().await;
        if let Err(error) = self.context.store.release_all(&self.context.owner).await {
            tracing::warn!(error = %ErrorChain(&error), "the leases could not be given back");
        }
    }
}
