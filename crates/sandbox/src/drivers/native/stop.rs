//! Removing sandboxes: kill the groups, wait until they are empty, remove what they held, the marker last.
//!
//! Works from the marker alone, however far the start came and whichever process made it. Whatever of this yard has no
//! marker is an orphan of a killed server and removed by `sweep`.

use std::io;
use std::time::Duration;

use super::Yard;
use super::record::Record;
use crate::driver::{FoundSandbox, SandboxId, StopError};
use crate::parts::cgroup::Groups;
use crate::parts::liveness::ProcessIdentity;
use crate::parts::{disk, patience};

/// The kernel writes a dirty disk back before it lets go of it: 4 GiB at the pace of a slow disk.
const RELEASED_WITHIN: Duration = Duration::from_secs(120);

impl Yard {
    /// Removes a sandbox and its marker.
    pub(super) async fn remove(&self, id: &SandboxId) -> Result<(), StopError> {
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source| StopError { id: id.clone(), step, source }
        };
        let record = self.records.read(id).map_err(failed("read the marker"))?;
        if let Some(record) = &record {
            self.clear(id, &Groups::new(&self.layout, &self.yard, &record.groups)).await?;
            patience::poll(RELEASED_WITHIN, || disk::is_released(&record.workspace))
                .await
                .map_err(failed("release the disk"))?;
            self.ids.release(record.id_base);
        } else {
            self.links.remove(id).map_err(failed("remove the link directory"))?;
        }
        self.started.remove(id);
        self.records.delete(id).map_err(failed("delete the marker"))
    }

    /// Kills and removes all of a sandbox but its marker and disk.
    pub(super) async fn clear(&self, id: &SandboxId, groups: &Groups) -> Result<(), StopError> {
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source| StopError { id: id.clone(), step, source }
        };
        groups.clear().await.map_err(failed("remove the control groups"))?;
        self.links.remove(id).map_err(failed("remove the link directory"))
    }

    /// Every sandbox with a marker. Removes what has none.
    pub(super) async fn list(&self) -> io::Result<Vec<FoundSandbox>> {
        self.sweep().await?;
        let alive = |record: Option<Record>| record.is_some_and(|record| record.is_alive());
        self.records
            .ids()?
            .into_iter()
            .map(|id| Ok(FoundSandbox { alive: alive(self.records.read(&id)?), id }))
            .collect()
    }

    /// Removes groups and link directories of this yard that no marker and no slot owns.
    async fn sweep(&self) -> io::Result<()> {
        // Groups first: a start in between turns a slot into a marker, in this order, so one of the two is seen.
        let names = Groups::all_names(&self.layout, &self.yard)?;
        let links = self.links.ids()?;
        let orphans: Vec<_> = names.into_iter().filter(|name| !self.slots.owns(name)).collect();
        let records = self.records.all()?;
        for name in orphans.iter().filter(|name| !records.iter().any(|record| record.groups == **name)) {
            tracing::info!(groups = name, "removing control groups without an owner");
            Groups::new(&self.layout, &self.yard, name).clear().await?;
        }
        let marked = self.records.ids()?;
        for id in links.iter().filter(|id| !marked.contains(id)) {
            self.links.remove(id)?;
        }
        Ok(())
    }

    /// The identity of a sandbox's first process.
    pub(super) fn process_of(&self, id: &SandboxId) -> Option<ProcessIdentity> {
        self.records.read(id).ok().flatten().and_then(|record| record.process)
    }
}
