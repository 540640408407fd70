//! Removing sandboxes: kill the groups, have the runtime forget the container, remove what is left, the marker last.
//!
//! Works from the marker alone, however far the start came and whichever process made it. Whatever of this yard has no
//! marker is an orphan of a killed server and removed by `sweep`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::Yard;
use super::record::Record;
use super::runtime::{self, Runtime};
use crate::driver::{FoundSandbox, SandboxId, StopError};
use crate::parts::cgroup::Groups;
use crate::parts::liveness::ProcessIdentity;
use crate::parts::{disk, patience};

/// The kernel writes a dirty disk back before it lets go of it: 4 GiB at the pace of a slow disk.
const RELEASED_WITHIN: Duration = Duration::from_secs(120);

impl Yard {
    /// Removes a sandbox and its marker.
    pub(super) async fn remove(&self, id: &SandboxId) -> Result<(), StopError> {
        let _alone = self.locks.of(id).lock_owned().await;
        self.clear(id).await?;
        self.locks.forget(id);
        Ok(())
    }

    /// The same for whoever holds its lock.
    pub(super) async fn clear(&self, id: &SandboxId) -> Result<(), StopError> {
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source| StopError { id: id.clone(), step, source }
        };
        match self.records.read(id).map_err(failed("read the marker"))? {
            Some(record) => {
                self.dismantle(&record).await?;
                patience::poll(RELEASED_WITHIN, || disk::is_released(&record.workspace))
                    .await
                    .map_err(failed("release the disk"))?;
                if let Some(base) = record.id_base {
                    self.ids.release(base);
                }
            }
            None => self.links.remove(id).map_err(failed("remove the link directory"))?,
        }
        self.started.remove(id);
        self.records.delete(id).map_err(failed("delete the marker"))
    }

    /// Kills and removes all of a sandbox but its marker and disk.
    pub(super) async fn dismantle(&self, record: &Record) -> Result<(), StopError> {
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source| StopError { id: record.id.clone(), step, source }
        };
        let groups = Groups::new(&self.layout, &self.yard, &record.groups);
        groups.kill().map_err(failed("kill its processes"))?;
        // Another one may have made it, if the operator has changed his mind since.
        let other = match record.runtime == self.runtime.program {
            true => None,
            false => Runtime::find(record.runtime.to_str()),
        };
        self.forget_container(other.as_ref().unwrap_or(&self.runtime), &record.id)
            .await
            .map_err(failed("delete the container"))?;
        groups.clear().await.map_err(failed("remove the control groups"))?;
        self.links.remove(&record.id).map_err(failed("remove the link directory"))
    }

    /// Has the runtime delete a container, and removes what it keeps of one that it never finished.
    async fn forget_container(&self, runtime: &Runtime, id: &SandboxId) -> io::Result<()> {
        let state = self.state();
        let kept = state.join(id.as_str());
        if !kept.try_exists()? && !keeps_elsewhere(&state, id)? {
            return Ok(());
        }
        let mut delete = runtime.command(&state);
        delete.args(["delete", "--force"]).arg(id.as_str());
        let deleted = runtime::call(delete).await;
        if kept.try_exists()? {
            // Half made: the runtime does not know it, and its processes were in the groups or ended with their maker.
            fs::remove_dir_all(&kept)?;
            return Ok(());
        }
        deleted
    }

    /// Every sandbox with a marker. Removes what has none.
    pub(super) async fn list(&self) -> io::Result<Vec<FoundSandbox>> {
        self.sweep().await?;
        let alive = |record: Option<Record>| record.is_some_and(|record| record.is_alive());
        let found = |id: SandboxId| Ok(FoundSandbox { alive: alive(self.records.read(&id)?), id });
        self.records.ids()?.into_iter().map(found).collect()
    }

    /// Removes containers, groups and link directories of this yard that no marker owns. A start writes its marker first, so
    /// whatever is seen here before the markers are read has one, or is nobody's.
    async fn sweep(&self) -> io::Result<()> {
        let names = Groups::all_names(&self.layout, &self.yard)?;
        let containers = ids_in(&self.state())?;
        let links = self.links.ids()?;
        let records = self.records.all()?;
        let marked = self.records.ids()?;
        for name in names.iter().filter(|name| !records.iter().any(|record| record.groups == **name)) {
            tracing::info!(groups = name, "removing control groups without an owner");
            Groups::new(&self.layout, &self.yard, name).kill()?;
        }
        for id in containers.iter().filter(|id| !marked.contains(id)) {
            tracing::info!(container = %id, "removing a container without an owner");
            self.forget_container(&self.runtime, id).await?;
        }
        for name in names.iter().filter(|name| !records.iter().any(|record| record.groups == **name)) {
            Groups::new(&self.layout, &self.yard, name).clear().await?;
        }
        links.iter().filter(|id| !marked.contains(id)).try_for_each(|id| self.links.remove(id))
    }

    /// The identity of a sandbox's first process.
    pub(super) fn process_of(&self, id: &SandboxId) -> Option<ProcessIdentity> {
        self.records.read(id).ok().flatten().and_then(|record| record.process)
    }
}

/// gVisor keeps no directory for a container but files that begin with its name.
fn keeps_elsewhere(state: &Path, id: &SandboxId) -> io::Result<bool> {
    let prefix = format!("{id}_");
    for entry in fs::read_dir(state)? {
        if entry?.file_name().to_string_lossy().starts_with(&prefix) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn ids_in(state: &Path) -> io::Result<Vec<SandboxId>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(state)? {
        ids.extend(entry?.file_name().to_str().and_then(SandboxId::parse));
    }
    Ok(ids)
}
