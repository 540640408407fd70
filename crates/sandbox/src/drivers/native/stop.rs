//! Removing sandboxes: kill the groups, wait until they are empty, remove what they held, the marker last.
//!
//! Works from the marker alone, however far the start came and whichever process made it. Whatever of this yard has no
//! marker is an orphan of a killed server and removed by `sweep`.

use std::io;

use super::state::NativeState;
use crate::driver::{SandboxId, StopError};
use crate::host::cgroup::Groups;

impl NativeState {
    /// Removes a sandbox and its marker.
    pub(super) async fn remove(&self, id: &SandboxId) -> Result<(), StopError> {
        let record = self.sandboxes.marked(id)?;
        match &record {
            Some(record) => self.clear(id, &self.sandboxes.groups(record)).await?,
            None => self.links.remove(id).map_err(StopError::at(id, "remove the link directory"))?,
        }
        self.started.remove(id);
        self.sandboxes.forget(id, record.as_ref()).await
    }

    /// Kills and removes all of a sandbox but its marker and disk.
    pub(super) async fn clear(&self, id: &SandboxId, groups: &Groups) -> Result<(), StopError> {
        groups.clear().await.map_err(StopError::at(id, "remove the control groups"))?;
        self.links.remove(id).map_err(StopError::at(id, "remove the link directory"))
    }

    /// Removes groups and link directories of this yard that no marker and no slot owns.
    pub(super) async fn sweep(&self) -> io::Result<()> {
        let links = self.sandboxes.without_marker(self.links.ids()?)?;
        // A start in between turns a slot into a marker, in this order, so one of the two is seen.
        for groups in self.sandboxes.orphaned_groups(|name| self.slots.owns(name))? {
            groups.clear().await?;
        }
        links.iter().try_for_each(|id| self.links.remove(id))
    }
}
