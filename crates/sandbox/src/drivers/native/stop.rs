//! Removing sandboxes: kill the groups, wait until they are empty, remove links and groups, the marker last.
//!
//! Works from the marker alone, however far the start came and whichever process made it. Whatever of this yard has no
//! marker is an orphan of a killed server and removed by `sweep`.

use std::io;

use super::state::NativeState;
use crate::driver::{SandboxId, StopError};
use crate::host::cgroup::Groups;

impl NativeState {
    /// Removes a sandbox and its marker. Idempotent.
    pub(super) async fn remove(&self, id: &SandboxId) -> Result<(), StopError> {
        let record = self.sandboxes.marked(id)?;
        match &record {
            Some(record) => self.clear(id, &self.sandboxes.groups(record)).await?,
            None => self.links.remove(id).map_err(StopError::at(id, "remove the link directory"))?,
        }
        self.started.remove(id);
        // The marker goes last: a crash before that leaves a marker by which the next call finds the rest.
        self.sandboxes.forget(id, record.as_ref()).await
    }

    /// Kills the sandbox's processes and removes its groups and its link directory, but neither marker nor
    /// disk.
    pub(super) async fn clear(&self, id: &SandboxId, groups: &Groups) -> Result<(), StopError> {
        // Groups first: while a process lives, it could still use the link.
        groups.clear().await.map_err(StopError::at(id, "remove the control groups"))?;
        self.links.remove(id).map_err(StopError::at(id, "remove the link directory"))
    }

    /// Removes groups and link directories of this yard that no marker and no slot owns.
    pub(super) async fn sweep(&self) -> io::Result<()> {
        // Listed before the markers are read: a start writes its marker first, so a link directory without
        // one is an orphan.
        let links = self.sandboxes.without_marker(self.links.ids()?)?;
        // A start turns a slot into a marker and drops the claim afterwards, so at least one of the two is
        // seen here.
        for groups in self.sandboxes.orphaned_groups(|name| self.slots.owns(name))? {
            groups.clear().await?;
        }
        links.iter().try_for_each(|id| self.links.remove(id))
    }
}
