//! The owner of one job: reads where the row is, does the next thing, commits, and again until nothing is left to do.
//!
//! `starting` makes a machine, `following` takes events and output, `finishing` takes the workspace out, `closing` tears
//! down. Each phase can be entered by an owner that knows nothing but the row, which is how a restart goes on.

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::Backoff;
use sandyard_sandbox::driver::{Driver, SandboxId};
use sandyard_sandbox::machine::{GuestEventStream, Machine};

use super::egress_log::EgressLog;
use super::task_gateways::TaskServices;
use crate::error_chain::chain;
use crate::job::JobRow;
use crate::job::JobState;
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
    /// The job's way to the network, once it runs.
    pub(super) egress_log: Option<EgressLog>,
    /// A task's desk and models, once it runs.
    pub(super) agent: Option<TaskServices>,
    /// Whether another owner had the job before: a machine may be there already.
    pub(super) adopted: bool,
    /// Its room; given back when the task ends.
    _permit: Permit,
}

/// A machine with a link.
pub(super) struct LinkedMachine {
    pub(super) machine: Arc<Machine>,
    /// Before a session: opened while the job was prepared. After it: held open, though nobody reads it after the job's end,
    /// because the guest takes its loss for the loss of the host.
    pub(super) events: Option<GuestEventStream>,
    /// Tools reach it while this is here.
    pub(super) reachable: Option<Reachable>,
}

/// How a task came by its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimOrigin {
    /// From the queue: it has no machine.
    Queue,
    /// From an owner that is gone: it may have one.
    Orphan,
}

/// What a phase comes to.
pub(super) enum NextStep {
    /// On, from this row.
    Row(Box<JobRow>),
    /// There is nothing left to do here.
    Done,
}

impl Drop for LinkedMachine {
    /// Whoever still holds the machine loses it too: the next owner must not share it with us.
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
            adopted: origin == ClaimOrigin::Orphan,
            _permit: permit,
        }
    }

    /// Puts the linked machine within reach of tools.
    pub(super) fn publish(&mut self, row: &JobRow) -> Option<Arc<Machine>> {
        let linked = self.linked.as_mut()?;
        if linked.reachable.is_none() {
            linked.reachable = Some(self.context.machines.publish(&row.id, Arc::clone(&linked.machine)));
        }
        Some(Arc::clone(&linked.machine))
    }

    /// Works until the job is done with or belongs to somebody else.
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
                    tracing::warn!(job = %row.id, error = %chain(&error), "trying again");
                    tokio::time::sleep(backoff.next_wait()).await;
                    match self.reload(&row).await {
                        Some(fresh) => row = fresh,
                        None => return,
                    }
                }
            }
        }
    }

    async fn step(&mut self, row: JobRow) -> Result<NextStep, StoreError> {
        if row.delete_requested {
            return self.delete(row).await;
        }
        match row.state {
            JobState::Queued => Ok(NextStep::Done),
            JobState::Starting => self.start(row).await,
            JobState::Running | JobState::Waiting if Self::is_restarting(&row) => self.start_again(row).await,
            JobState::Running | JobState::Waiting => self.follow(row).await,
            JobState::Finishing => self.finish(row).await,
            JobState::Succeeded | JobState::Failed | JobState::Cancelled | JobState::TimedOut => {
                self.close(row).await
            }
        }
    }

    /// The row as it is now, if it is still ours.
    async fn reload(&self, row: &JobRow) -> Option<JobRow> {
        match self.context.store.any_job(&row.id).await {
            Ok(Some(fresh)) if fresh.epoch == row.epoch => Some(fresh),
            Ok(_) => None,
            Err(_) => Some(row.clone()),
        }
    }

    /// Returns with the row when somebody asked for the job's end or removal.
    pub(super) async fn requested(&mut self, row: &JobRow) -> Result<JobRow, StoreError> {
        loop {
            match self.context.store.any_job(&row.id).await? {
                Some(fresh) if fresh.epoch != row.epoch => return Err(StoreError::Stale(row.id.clone())),
                Some(fresh) if fresh.cancel_requested || fresh.delete_requested => return Ok(fresh),
                Some(_) => self.watch.changed().await,
                None => return Err(StoreError::Stale(row.id.clone())),
            }
        }
    }

    /// Stops a sandbox, however often it takes: nothing may follow before it is gone.
    pub(super) async fn stop_sandbox(&mut self, driver: &dyn Driver, sandbox: &SandboxId) {
        self.linked = None;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(10));
        while let Err(error) = driver.stop(sandbox).await {
            tracing::warn!(%sandbox, error = %chain(&error), "the sandbox could not be stopped, trying again");
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// Stops whatever sandbox the row has.
    pub(super) async fn stop_present_sandbox(&mut self, row: &JobRow) {
        if let (Some(driver), Some(sandbox)) = (self.context.driver(row), row.sandbox_id()) {
            self.stop_sandbox(driver.as_ref(), &sandbox).await;
        }
    }
}

/// Shorthand for the phases.
pub(super) fn on(row: JobRow) -> Result<NextStep, StoreError> {
    Ok(NextStep::Row(Box::new(row)))
}
