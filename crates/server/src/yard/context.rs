//! The context that all owners of jobs and all use cases share: store, drivers, live machines.

use std::sync::Arc;

use sandyard_sandbox::driver::{Driver, Limits};
use tokio::sync::{Notify, Semaphore};

use super::{
    Admission, AuditRecorder, DiskProbe, Machines, Metrics, SandboxRoom, StatusCache, Usages, Verdicts,
    WaitingLine, metrics,
};
use crate::audit::{AuditEntry, PublicKey};
use crate::blobs::{Blobs, Scratch, WorkspaceFolders};
use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::drivers::Drivers;
use crate::drivers::Images;
use crate::gateways::model::Models;
use crate::job::{Change, JobId, JobRow, SandboxState};
use crate::output::SharedOutputPace;
use crate::recall::RecallService;
use crate::store::{Store, StoreError};

/// The parts of a running yard.
pub(crate) struct YardContext {
    pub(crate) config: ServerConfig,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) drivers: Drivers,
    pub(crate) images: Arc<dyn Images>,
    /// The models that tasks may use.
    pub(crate) models: Models,
    /// Results, output and other bytes of jobs.
    pub(crate) blobs: Arc<dyn Blobs>,
    /// The memory of jobs: texts behind journals, and questions.
    pub(crate) recall: Arc<RecallService>,
    /// Files that are still being written.
    pub(crate) scratch: Scratch,
    /// Folders for the disks of sandboxes on this host.
    pub(crate) workspaces: WorkspaceFolders,
    pub(crate) metrics: Metrics,
    pub(crate) machines: Machines,
    /// Statuses that only a deletion changes.
    pub(crate) ended: Arc<StatusCache>,
    pub(crate) admission: Admission,
    /// The order of jobs that wait for room.
    pub(crate) line: WaitingLine,
    /// Tells whether the data directory can be written.
    pub(crate) disk_probe: DiskProbe,
    /// Last known usage of jobs that run.
    pub(crate) usages: Usages,
    /// Ends that this server has decided.
    pub(crate) verdicts: Verdicts,
    /// The rate of output of all jobs together.
    pub(crate) output_pace: SharedOutputPace,
    /// Turns of owners that take over a live sandbox.
    pub(crate) adoptions: Arc<Semaphore>,
    /// Records calls of tools in audits, beside the commits of owners.
    pub(crate) recorder: Arc<AuditRecorder>,
    /// Public half of the key that signs audits.
    pub(crate) audit_key: PublicKey,
    /// Wakes the loop: a job was queued, or a sandbox has gone.
    pub(crate) wake: Arc<Notify>,
    /// Wakes the loop: a closed job was marked as deleted and needs an owner.
    pub(crate) orphaned: Notify,
    pub(crate) clock: Clock,
    /// Name of this process in leases.
    pub(crate) owner: String,
}

impl YardContext {
    /// Commits for the owner of a row, logs its moves and counts refusals.
    pub(crate) async fn commit(&self, row: &JobRow, changes: Vec<Change>) -> Result<JobRow, StoreError> {
        let moves = changes.iter().any(|change| matches!(change, Change::Move { .. }));
        let result = self.store.commit(&row.fence(), changes).await;
        match &result {
            Ok(after) if moves => {
                let (state, reason) = (after.state.as_str(), after.reason.as_deref());
                tracing::info!(job = %row.id, epoch = row.epoch, state, reason, "moved");
            }
            Err(error) if error.is_stale() => metrics::count(&self.metrics.stale_writes),
            Ok(_) | Err(_) => {}
        }
        result
    }

    /// Marks a job as deleted: from then on it is unknown. `None` if it already was.
    pub(crate) async fn request_delete(
        &self,
        id: &JobId,
        entry: AuditEntry,
    ) -> Result<Option<JobRow>, StoreError> {
        let marked = self.store.request_delete(id, entry).await;
        // Also after a failure: the commit may have happened, and a cached status would show a deleted job.
        self.ended.forget(id);
        marked
    }

    /// Waits until the job is to be deleted; returns the row.
    pub(crate) async fn deleted(&self, row: &JobRow) -> Result<JobRow, StoreError> {
        self.until(row, |fresh| fresh.delete_requested).await
    }

    /// Waits until a client asks for the job's end or removal; returns the row.
    pub(crate) async fn let_go_of(&self, row: &JobRow) -> Result<JobRow, StoreError> {
        self.until(row, |fresh| fresh.cancel_requested || fresh.delete_requested).await
    }

    async fn until(&self, row: &JobRow, wanted: fn(&JobRow) -> bool) -> Result<JobRow, StoreError> {
        // Before the first read: a commit between the read and the wait still wakes the watch.
        let mut watch = self.store.watch(&row.id);
        loop {
            match self.store.any_job(&row.id).await? {
                Some(fresh) if fresh.epoch != row.epoch => return Err(StoreError::Stale(row.id.clone())),
                Some(fresh) if wanted(&fresh) => return Ok(fresh),
                Some(_) => watch.changed().await,
                None => return Err(StoreError::Stale(row.id.clone())),
            }
        }
    }

    /// Returns the time until which the machine of an ended job is kept; `None` if the job has no such machine.
    pub(crate) fn kept_until_ms(&self, row: &JobRow) -> Option<i64> {
        let is_kept = row.keep && !row.cancel_requested && row.sandbox == SandboxState::Live;
        let keep_ms = i64::try_from(self.config.keep.as_millis()).unwrap_or(i64::MAX);
        row.finished_ms.filter(|_| is_kept).map(|finished_ms| finished_ms.saturating_add(keep_ms))
    }

    /// Duration of a lease.
    pub(crate) fn ttl_ms(&self) -> u64 {
        u64::try_from(self.config.lease.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the room that a sandbox is admitted with. One that can take more memory than the whole yard has runs alone.
    pub(crate) fn room(&self, driver: &dyn Driver, limits: &Limits) -> SandboxRoom {
        let least = Self::least_room(limits);
        let memory_mib = driver.memory_mib(limits).min(self.admission.largest_memory_mib());
        // Never less than it can take: a sandbox that runs alone could still fill the disk of the store.
        SandboxRoom { memory_mib: memory_mib.max(least.memory_mib), disk_mib: driver.disk_mib(limits) }
    }

    /// Returns the room that a sandbox with these limits needs at least, whatever its driver.
    pub(crate) fn least_room(limits: &Limits) -> SandboxRoom {
        SandboxRoom { memory_mib: limits.memory_mib, disk_mib: 0 }
    }

    /// Returns the driver of a job, if this server has it.
    pub(crate) fn driver(&self, row: &JobRow) -> Option<Arc<dyn Driver>> {
        row.driver.as_deref().and_then(|name| self.drivers.named(name))
    }
}
