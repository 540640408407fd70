//! Removing sandboxes: kill the groups, have the runtime delete the container, remove the rest, the marker
//! last.
//!
//! Works from the marker alone, however far the start came and whichever process made it. Parts of this yard
//! without a marker are orphans of a killed server, which `sweep` removes.

use std::fs;
use std::io;

use super::runtime::{self, Runtime};
use super::state::OciState;
use crate::driver::{SandboxId, StopError};
use crate::host::sandboxes::folders;
use crate::host::sandboxes::records::SandboxRecord;

impl OciState {
    /// Removes a sandbox and its marker.
    pub(super) async fn remove(&self, id: &SandboxId) -> Result<(), StopError> {
        let _alone = self.locks.hold(id).await;
        self.clear(id).await
    }

    /// Removes a sandbox whose lock the caller holds.
    pub(super) async fn clear(&self, id: &SandboxId) -> Result<(), StopError> {
        let record = self.sandboxes.marked(id)?;
        match &record {
            Some(record) => self.dismantle(record).await?,
            None => self.links.remove(id).map_err(StopError::at(id, "remove the link directory"))?,
        }
        self.started.remove(id);
        self.sandboxes.forget(id, record.as_ref()).await
    }

    /// Kills the sandbox's processes and removes everything but marker and disk.
    pub(super) async fn dismantle(&self, record: &SandboxRecord) -> Result<(), StopError> {
        let failed = |step| StopError::at(&record.id, step);
        let groups = self.sandboxes.groups(record);
        // Before the runtime is called: a runtime that hangs must not keep the job alive.
        groups.kill().map_err(failed("kill its processes"))?;
        // Another runtime may have made it, if the operator has changed the setting since.
        let maker = record.runtime.as_deref().filter(|maker| *maker != self.runtime.program);
        let other = maker.and_then(|maker| Runtime::find(maker.to_str()));
        self.forget_container(other.as_ref().unwrap_or(&self.runtime), &record.id)
            .await
            .map_err(failed("delete the container"))?;
        groups.clear().await.map_err(failed("remove the control groups"))?;
        self.links.remove(&record.id).map_err(failed("remove the link directory"))
    }

    /// Makes the runtime delete a container, and removes the state of one that was never finished.
    async fn forget_container(&self, runtime: &Runtime, id: &SandboxId) -> io::Result<()> {
        let state = self.state();
        let kept = state.join(id.as_str());
        if !kept.try_exists()? {
            return Ok(());
        }
        let mut delete = runtime.command(&state);
        delete.args(["delete", "--force"]).arg(id.as_str());
        let deleted = runtime::call(delete).await;
        if kept.try_exists()? {
            // The container was half made: the runtime does not know it, and its processes were in the groups
            // or ended with their maker.
            fs::remove_dir_all(&kept)?;
            return Ok(());
        }
        deleted
    }

    /// Removes containers, groups and link directories of this yard that no marker owns.
    pub(super) async fn sweep(&self) -> io::Result<()> {
        // Listed before the markers are read: a start writes its marker first, so a container without one is
        // an orphan.
        let containers = self.sandboxes.without_marker(folders::ids_in(&self.state())?)?;
        let links = self.sandboxes.without_marker(self.links.ids()?)?;
        let groups = self.sandboxes.orphaned_groups(|_| false)?;
        groups.iter().try_for_each(|groups| groups.kill())?;
        for id in containers {
            tracing::info!(container = %id, "removing a container without an owner");
            self.forget_container(&self.runtime, &id).await?;
        }
        for groups in groups {
            groups.clear().await?;
        }
        links.iter().try_for_each(|id| self.links.remove(id))
    }
}
