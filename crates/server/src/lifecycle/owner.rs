//! The owner of one job: it reads the row, does the next step, commits, and repeats until nothing is left to do.
//!
//! `starting` makes a machine, `following` takes events and output, `finishing` takes the workspace out, `closing` tears
//! down. Each phase can be entered by an owner that knows nothing but the row, which is how a restart goes on.

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::Backoff;
use sandyard_protocol::ErrorChain;
use sandyard_sandbox::driver::{Driver, SandboxId};
use sandyard_sandbox::machine::{GuestEventStream, Machine};

use super::egress_log::EgressLog;
use super::task_gateways::TaskServices;
use crate::job::{Change, JobRow, JobState};
use crate::store::{JobWatch, StoreError};
use crate::yard::Permit;
use crate::yard::{Reachable, YardContext};

/// The owner of one job, for as long as its lease holds.
pub(super) struct JobOwner {
    pub(super) context: Arc<YardContext>,
    /// Woken by every commit of the job: cancel and delete arrive this way.
    pub(super) watch: JobWatch,
    /// The machine, while a link to it is up.
    pub(super) linked: Option<LinkedMachine>,
    /// The job's egress gateway, once it runs.
    pub(super) egress_log: Option<EgressLog>,
    /// A task's journal service and model gateway, once it runs.
    pub(super) agent: Option<TaskServices>,
    /// The time limit that the job began with, once its request was read.
    pub(super) asked_timeout_s: Option<u64>,
    /// True if another owner had the job before, so that a machine may exist already.
    pub(super) adopted: bool,
    /// Sandboxes that their driver has stopped. The next commit deletes their rows.
    stopped: Vec<SandboxId>,
    /// The job's share of the host; given back when the owner is dropped.
    pub(super) permit: Permit,
}

/// A machine with a link.
pub(super) struct LinkedMachine {
    pub(super) machine: Arc<Machine>,
    /// Before a session: opened while the job was prepared. After it: held open, though nobody reads it any more, because the
    /// guest takes the loss of this stream for the loss of the host.
    pub(super) events: Option<GuestEventStream>,
    /// Tools reach the machine while this is `Some`.
    pub(super) reachable: Option<Reachable>,
}

/// Where an owner got its job from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimOrigin {
    /// From the queue. The job has no machine.
    Queue,
    /// From an owner that is gone. The job may have a machine.
    Orphan,
}

/// The step that follows a phase.
pub(super) enum NextStep {
    /// The owner continues with the phase of this row.
    Row(Box<JobRow>),
    /// The owner stops: the job is done, or belongs to another owner.
    Done,
}

impl Drop for LinkedMachine {
    /// Closes the link for everyone who holds the machine: the next owner must not share it.
    fn drop(&mut self) {
        self.machine.link().close();
    }
}

impl LinkedMachine {
    pub(super) fn new(machine: Arc<Machine>) -> Self {
        Self { machine, events: None, reachable: None }
    }
}

impl JobOwner {
    pub(super) fn new(context: Arc<YardContext>, row: &JobRow, permit: Permit, origin: ClaimOrigin) -> Self {
        let watch = context.store.watch(&row.id);
        Self {
            context,
            watch,
            linked: None,
            egress_log: None,
            agent: None,
            asked_timeout_s: None,
            adopted: origin == ClaimOrigin::Orphan,
            stopped: Vec::new(),
            permit,
        }
    }

    /// Lets tools reach the linked machine.
    pub(super) fn publish(&mut self, row: &JobRow) -> Option<Arc<Machine>> {
        let linked = self.linked.as_mut()?;
        if linked.reachable.is_none() {
            linked.reachable = Some(self.context.machines.publish(&row.id, &linked.machine));
        }
        Some(Arc::clone(&linked.machine))
    }

    /// Works until the job is done or belongs to another owner.
    pub(super) async fn run(mut self, mut row: JobRow) {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        loop {
            match self.step(row.clone()).await {
                Ok(NextStep::Row(next)) => {
                    row = *next;
                    backoff.reset();
                }
                Ok(NextStep::Done) => return,
                Err(error) if error.is_stale() => {
                    tracing::info!(job = %row.id, "the job belongs to another owner");
                    return;
                }
                Err(error) => {
                    tracing::warn!(job = %row.id, error = %ErrorChain(&error), "trying again");
                    tokio::time::sleep(backoff.next_wait()).await;
                    // The failed commit may have happened, so the step is repeated from the stored row, not from the one in
                    // memory.
                    match self.reload(&row).await {
                        Some(fresh) => row = fresh,
                        None => return,
                    }
                }
            }
        }
    }

    async fn step(&mut self, row: JobRow) -> Result<NextStep, StoreError> {
        // First, in every state: a deleted job must not start, export or be kept.
        if row.delete_requested {
            return self.delete(row).await;
        }
        match row.state {
            JobState::Queued => Ok(NextStep::Done),
            JobState::Starting => self.start(row).await,
            // A task between two machines keeps its state; only its sandbox is `starting`.
            JobState::Running | JobState::Waiting if Self::is_restarting(&row) => self.start_again(row).await,
            JobState::Running | JobState::Waiting => self.follow(row).await,
            JobState::Finishing => self.finish(row).await,
            JobState::Succeeded | JobState::Failed | JobState::Cancelled | JobState::TimedOut => {
                self.close(row).await
            }
        }
    }

    /// Reads the row again; `None` if the job has another owner. A store that can't be read is asked again later.
    async fn reload(&self, row: &JobRow) -> Option<JobRow> {
        match self.context.store.any_job(&row.id).await {
            Ok(Some(fresh)) if fresh.epoch == row.epoch => Some(fresh),
            Ok(_) => None,
            // The caller waits before its next attempt, so a store that is down is not asked in a tight loop.
            Err(_) => Some(row.clone()),
        }
    }

    /// Waits until a client asks for the job's end or removal; returns the row.
    pub(super) async fn requested(&mut self, row: &JobRow) -> Result<JobRow, StoreError> {
        loop {
            match self.context.store.any_job(&row.id).await? {
                // The row is read before the watch is awaited, and the watch began with the owner: no request is missed in
                // between.
                Some(fresh) if fresh.epoch != row.epoch => return Err(StoreError::Stale(row.id.clone())),
                Some(fresh) if fresh.cancel_requested || fresh.delete_requested => return Ok(fresh),
                Some(_) => self.watch.changed().await,
                None => return Err(StoreError::Stale(row.id.clone())),
            }
        }
    }

    /// Stops a sandbox, and repeats that until it works: a second machine on the same workspace would destroy it.
    pub(super) async fn stop_sandbox(&mut self, driver: &dyn Driver, sandbox: &SandboxId) {
        // The link goes first, so that tools fail at once and do not wait for a machine that is being killed.
        self.linked = None;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(10));
        while let Err(error) = driver.stop(sandbox).await {
            tracing::warn!(%sandbox, error = %ErrorChain(&error), "the sandbox could not be stopped, trying again");
            tokio::time::sleep(backoff.next_wait()).await;
        }
        self.stopped.push(sandbox.clone());
    }

    /// Stops the sandbox that the row has. One whose driver is not configured any more keeps its row.
    pub(super) async fn stop_present_sandbox(&mut self, row: &JobRow) {
        if let (Some(driver), Some(sandbox)) = (self.context.driver(row), &row.sandbox_id) {
            self.stop_sandbox(driver.as_ref(), sandbox).await;
        }
    }

    /// Commits for the job, and deletes the rows of the sandboxes that were stopped since the last commit: never before their
    /// driver has stopped them, or a crash in between would leave machines that no row names.
    pub(super) async fn commit(
        &mut self,
        row: &JobRow,
        mut changes: Vec<Change>,
    ) -> Result<JobRow, StoreError> {
        changes.splice(0..0, self.stopped.iter().cloned().map(Change::SandboxStopped));
        let row = self.context.commit(row, changes).await?;
        // Only after the commit: one that fails is repeated, and must delete the same rows.
        self.stopped.clear();
        Ok(row)
    }
}

/// Continues with the phase of a row.
pub(super) fn on(row: JobRow) -> Result<NextStep, StoreError> {
    Ok(NextStep::Row(Box::new(row)))
}
