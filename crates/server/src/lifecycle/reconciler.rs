//! The loop of one server: claims jobs, gives each a task, and cleans.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_protocol::ErrorChain;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::adopting;
use super::disk_watch::DiskWatch;
use super::leases::{LeaseRenewal, RenewedLeases};
use super::owner::{ClaimOrigin, JobOwner};
use super::retention::{self, SweepRest};
use super::retention_clock::RetentionClock;
use crate::drivers::Outlook;
use crate::job::{Floor, JobId, JobRow};
use crate::yard;
use crate::yard::Permit;
use crate::yard::YardContext;

/// Pause between two sweeps while more old jobs are due than one sweep marks.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// A job that was claimed as it was stored, with its room.
pub(crate) type ClaimedJob = (Box<JobRow>, Permit);

/// The loop of one server. It owns a task for each job whose lease this server holds.
pub(crate) struct Reconciler {
    pub(super) context: Arc<YardContext>,
    claimed: mpsc::Receiver<ClaimedJob>,
    tasks: JoinSet<(JobId, u64)>,
    owned: HashMap<JobId, OwnedJob>,
    leases: LeaseRenewal,
    /// Watches the disk for as long as the loop lives.
    _disk_watch: DiskWatch,
    retention_clock: RetentionClock,
    drivers_tried: bool,
}

struct OwnedJob {
    epoch: u64,
    task: AbortHandle,
    /// When the loop got the job. A renewal that was asked for earlier does not know it.
    since: Instant,
}

impl Reconciler {
    /// Prepares the loop and begins to renew leases. Fails if the host has no thread for that.
    pub(crate) fn new(
        context: Arc<YardContext>,
        claimed: mpsc::Receiver<ClaimedJob>,
    ) -> std::io::Result<Self> {
        let leases = LeaseRenewal::start(&context)?;
        let (tasks, owned) = (JoinSet::new(), HashMap::new());
        let _disk_watch = DiskWatch::start(&context);
        let retention_clock = RetentionClock::open(&context.config.data, context.clock.reading());
        Ok(Self {
            context,
            claimed,
            tasks,
            owned,
            leases,
            _disk_watch,
            retention_clock,
            drivers_tried: false,
        })
    }

    /// Works until `stop` is cancelled, then lets go of every job. Dropping the future instead is a crash.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let pause = self.context.config.retention.interval;
        let mut cleaning = tokio::time::interval_at(tokio::time::Instant::now() + pause, pause);
        // `Delay`: after a suspend one tick is enough; a burst of them would only repeat the same work.
        cleaning.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let wake = Arc::clone(&self.context);
        loop {
            // A branch runs to its end before the next is picked, so no branch may wait for a sandbox: that is the work of the
            // tasks. Cancelling the waits loses nothing: queue, ticks, notices, renewals and ended tasks are kept by their
            // sources until they are taken.
            tokio::select! {
                () = stop.cancelled() => break,
                renewed = self.leases.next() => self.beat(&renewed).await,
                Some((row, permit)) = self.claimed.recv() => self.spawn(*row, permit, ClaimOrigin::Queue),
                Some(ended) = self.tasks.join_next() => self.ended(ended.ok()),
                () = wake.wake.notified() => {
                    self.claim().await;
                    self.try_drivers();
                }
                () = wake.store.queue_grew() => self.claim().await,
                () = wake.orphaned.notified() => self.take_orphans().await,
                _ = cleaning.tick() => {
                    if retention::sweep(&wake, &mut self.retention_clock).await == SweepRest::More {
                        cleaning.reset_after(SWEEP_PAUSE);
                    }
                    self.take_orphans().await;
                    self.remove_sandboxes().await;
                }
            }
        }
        // Only here: dropping the future leaves the leases to run out, as a crash does.
        self.let_go().await;
    }

    /// Lets go of jobs that this server has lost, and takes jobs that nobody owns.
    async fn beat(&mut self, renewed: &RenewedLeases) {
        let is_lost = |(job, owned): &(&JobId, &OwnedJob)| {
            owned.since < renewed.asked_at && renewed.epochs.get(*job) != Some(&owned.epoch)
        };
        let lost: Vec<JobId> = self.owned.iter().filter(is_lost).map(|(job, _)| job.clone()).collect();
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
                    let room = match self.context.driver(&row) {
                        Some(driver) => self.context.room(driver.as_ref(), machine),
                        None => YardContext::least_room(machine),
                    };
                    // Adopted without asking for room: the machine runs already, so refusing it would not free anything.
                    let permit = self.context.admission.adopt(room);
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

    pub(super) fn spawn(&mut self, row: JobRow, permit: Permit, origin: ClaimOrigin) {
        if let Some(old) = self.owned.remove(&row.id) {
            // At most one task for each job. The old one has a lower epoch, so a write that it has sent already is refused.
            old.task.abort();
        }
        let (job, epoch) = (row.id.clone(), row.epoch);
        permit.is_for(&row.id, self.context.workspaces.path(&row.id));
        let task = JobOwner::new(Arc::clone(&self.context), &row, permit, origin);
        let key = (job.clone(), epoch);
        let handle = self.tasks.spawn(async move {
            task.run(row).await;
            key
        });
        self.owned.insert(job, OwnedJob { epoch, task: handle, since: Instant::now() });
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
