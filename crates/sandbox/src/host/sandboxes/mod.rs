//! The sandboxes of one driver on this host: a marker, ids and control groups for each.
//!
//! Drivers start machines in different ways, but find, judge and count them in one. The first process of a
//! machine shows whether it lives, and its control groups show its usage. A group or folder of the yard
//! without a marker is an orphan of a killed server. All of this works from the markers alone, whichever
//! process started the sandbox. `MarkedSandboxes` is the state before the host was examined.

mod disk_state;
pub(crate) mod folders;
pub(crate) mod ids;
pub(crate) mod links;
pub(crate) mod liveness;
pub(crate) mod locks;
pub(crate) mod records;
mod yard_id;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use sandyard_pipe::Duplex;
use sandyard_protocol::ErrorChain;

use crate::driver::{
    BindError, Binding, BindingPart, BoxedDuplex, DiskState, DriverOpenError, FoundSandbox, LinkError,
    Liveness, SandboxId, StartError, StopError, Usage, UsageError,
};
use crate::host::cgroup::{CgroupLayout, GroupLimits, Groups};
use crate::host::layout::KEEPER_ID;
use crate::host::polling;
use crate::host::sandboxes::ids::{IdPool, Supply};
use crate::host::sandboxes::links::SocketLinks;
use crate::host::sandboxes::liveness::ProcessIdentity;
use crate::host::sandboxes::records::{SandboxRecord, SandboxRecords};
use crate::host::storage::disk;

/// Longest time until a disk is free. The kernel first writes dirty pages back: 4 GiB at the pace of a slow
/// disk.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(120);

/// The sandboxes that the markers of a data directory name, before the host was examined.
#[derive(Debug)]
pub(crate) struct MarkedSandboxes {
    pub(crate) yard: String,
    /// True if a sandbox runs. Then opening the driver must succeed or fail; it must not report the driver as unusable.
    pub(crate) in_use: bool,
    records: SandboxRecords,
    known: Vec<SandboxRecord>,
}

impl MarkedSandboxes {
    /// Reads the markers in the driver's own directory, making it if need be.
    pub(crate) fn of(data: &Path) -> Result<Self, DriverOpenError> {
        fs::create_dir_all(data).map_err(DriverOpenError::prepare("make the data directory"))?;
        let yard = yard_id::of(data).map_err(DriverOpenError::prepare("read the yard's id"))?;
        let records = SandboxRecords::open(data).map_err(DriverOpenError::prepare("open the markers"))?;
        let known = records.all().map_err(DriverOpenError::prepare("read the markers"))?;
        Ok(Self { yard, in_use: known.iter().any(SandboxRecord::is_alive), records, known })
    }

    /// Combines the markers with the host's control groups and ids.
    pub(crate) fn on_host(self, layout: CgroupLayout, supply: Supply) -> Sandboxes {
        let ids = IdPool::with_taken(supply, self.known.iter().filter_map(SandboxRecord::taken_ids));
        Sandboxes { yard: self.yard, layout, records: self.records, ids }
    }
}

/// All sandboxes of a driver.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    pub(crate) yard: String,
    /// Hierarchies that hold the sandboxes' control groups.
    pub(crate) layout: CgroupLayout,
    pub(crate) records: SandboxRecords,
    pub(crate) ids: IdPool,
}

impl Sandboxes {
    /// Returns the control groups of a sandbox.
    pub(crate) fn groups(&self, record: &SandboxRecord) -> Groups {
        self.groups_named(record.groups_name())
    }

    /// Returns control groups by their name.
    pub(crate) fn groups_named(&self, name: &str) -> Groups {
        Groups::new(&self.layout, &self.yard, name)
    }

    /// Returns keeper's user and group in the numbering of the host.
    pub(crate) fn keeper_on_host(&self, record: &SandboxRecord) -> u32 {
        record.taken_ids().map_or(KEEPER_ID, |base| self.ids.keeper_on_host(base))
    }

    /// Returns a sandbox whose first process is known, dead or alive.
    pub(crate) fn running(&self, id: &SandboxId) -> Result<RunningSandbox, LinkError> {
        let record = self.records.read(id).ok().flatten();
        let running =
            record.and_then(|record| Some(RunningSandbox { process: record.process.clone()?, record }));
        running.ok_or_else(|| LinkError::NotRunning(id.clone()))
    }

    /// Waits for the next link of a sandbox that dials in its link directory.
    pub(crate) async fn next_link(
        &self,
        id: &SandboxId,
        links: &SocketLinks,
    ) -> Result<BoxedDuplex, LinkError> {
        let running = self.running(id)?;
        running.link(links.accept(id, self.keeper_on_host(&running.record))).await
    }

    /// Returns when a sandbox is dead.
    pub(crate) async fn wait_dead(&self, id: &SandboxId) {
        if let Ok(running) = self.running(id) {
            running.process.wait_dead().await;
        }
    }

    /// Returns every sandbox that has a marker.
    pub(crate) fn found(&self) -> io::Result<Vec<FoundSandbox>> {
        let found =
            |id: SandboxId| Ok(FoundSandbox { liveness: self.find(&id)?.unwrap_or(Liveness::Dead), id });
        self.records.ids()?.into_iter().map(found).collect()
    }

    /// Reports whether a sandbox lives; `None` if it has no marker.
    pub(crate) fn find(&self, id: &SandboxId) -> io::Result<Option<Liveness>> {
        match self.records.read(id)? {
            Some(record) => Ok(Some(Liveness::known(record.is_alive()))),
            // A start that was cut off leaves the directory of a marker without its record.
            None => Ok(self.records.directory(id).try_exists()?.then_some(Liveness::Dead)),
        }
    }

    /// Reports whether a sandbox can write to its disk, by the mounts of its first process.
    pub(crate) fn disk_state(&self, id: &SandboxId) -> DiskState {
        let alive = self.running(id).ok().filter(|running| running.record.is_alive());
        let state = alive.map(|running| disk_state::of_process(running.process.pid));
        state.and_then(Result::ok).unwrap_or(DiskState::Unknown)
    }

    /// Returns a sandbox's usage, as counted by the host.
    pub(crate) fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        let record = self.records.read(id).and_then(|record| record.ok_or(io::ErrorKind::NotFound.into()));
        let usage = record.and_then(|record| self.groups(&record).usage());
        usage.map_err(|source| UsageError { id: id.clone(), source })
    }

    /// Gives a running sandbox other limits, through its control groups.
    pub(crate) fn bind_limits(
        &self,
        driver: &'static str,
        id: &SandboxId,
        binding: &Binding,
    ) -> Result<(), BindError> {
        if binding.workspace.is_some() {
            return Err(BindError::Unsupported { driver, part: BindingPart::Workspace });
        }
        let alive = self.running(id).ok().filter(|running| running.record.is_alive());
        let running = alive.ok_or_else(|| BindError::NotRunning(id.clone()))?;
        let limits =
            GroupLimits { job: binding.limits, disk_in_memory_mib: 0, workspace: &running.record.workspace };
        self.groups(&running.record).limit(limits).map_err(|source| BindError::Step {
            id: id.clone(),
            step: "limit the control groups".to_owned(),
            source,
        })
    }

    /// Returns the state of a sandbox before its start.
    pub(crate) fn before(&self, id: &SandboxId) -> Result<ExistingSandbox, StartError> {
        let record = self.records.read(id).map_err(StartError::at("read the marker"))?;
        Ok(record.map_or(ExistingSandbox::Nothing, |record| match record.is_alive() {
            true => ExistingSandbox::Running,
            false => ExistingSandbox::Dead,
        }))
    }

    /// Returns the marker of a sandbox that is to be removed.
    pub(crate) fn marked(&self, id: &SandboxId) -> Result<Option<SandboxRecord>, StopError> {
        self.records.read(id).map_err(StopError::at(id, "read the marker"))
    }

    /// Ends a removal: waits until the disk is free, releases the ids and deletes the marker.
    pub(crate) async fn forget(
        &self,
        id: &SandboxId,
        record: Option<&SandboxRecord>,
    ) -> Result<(), StopError> {
        if let Some(record) = record {
            // The ids stay taken until the disk is free: files of a dead sandbox must not belong to the next
            // one's users.
            let released = polling::poll(RELEASE_TIMEOUT, || disk::is_released(&record.workspace)).await;
            released.map_err(StopError::at(id, "release the disk"))?;
            if let Some(base) = record.taken_ids() {
                self.ids.release(base);
            }
        }
        self.records.delete(id).map_err(StopError::at(id, "delete the marker"))
    }

    /// Returns the ids of `seen` that have no marker. A start writes its marker first, so an id that was seen before this call
    /// and has no marker is an orphan.
    pub(crate) fn without_marker(
        &self,
        seen: impl IntoIterator<Item = SandboxId>,
    ) -> io::Result<Vec<SandboxId>> {
        // A set: with a list, a thousand sandboxes would cost a million comparisons.
        let marked: HashSet<SandboxId> = self.records.ids()?.into_iter().collect();
        Ok(seen.into_iter().filter(|id| !marked.contains(id)).collect())
    }

    /// Returns the names of the control groups that markers name.
    pub(crate) fn marked_groups(&self) -> io::Result<HashSet<String>> {
        Ok(self.records.all()?.iter().map(|record| record.groups_name().to_owned()).collect())
    }

    /// Returns control groups of this yard that no marker names, except those that the driver `keeps` for later sandboxes.
    pub(crate) fn orphaned_groups(&self, keeps: impl Fn(&str) -> bool) -> io::Result<Vec<Groups>> {
        // Markers are read last. A group that the driver kept at the check above has a marker by now.
        let mut names = Groups::all_names(&self.layout, &self.yard)?;
        names.retain(|name| !keeps(name));
        let marked = self.marked_groups()?;
        names.retain(|name| !marked.contains(name));
        let groups = |name: &String| {
            tracing::info!(groups = name, "removing control groups without an owner");
            self.groups_named(name)
        };
        Ok(names.iter().map(groups).collect())
    }
}

impl Drop for Sandboxes {
    fn drop(&mut self) {
        // Fails for directories that still hold a group, which is intended.
        Groups::remove_yard(&self.layout, &self.yard);
    }
}

/// State of a sandbox before its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingSandbox {
    /// The sandbox has no marker.
    Nothing,
    /// The sandbox runs; the start has nothing to do.
    Running,
    /// The sandbox is dead or its start never finished. Its remains must be removed first.
    Dead,
}

/// A sandbox and its first process.
#[derive(Debug)]
pub(crate) struct RunningSandbox {
    pub(crate) record: SandboxRecord,
    process: ProcessIdentity,
}

impl RunningSandbox {
    /// Waits for `accept`, unless the sandbox dies first.
    pub(crate) async fn link<L: Duplex>(
        &self,
        accept: impl Future<Output = io::Result<L>>,
    ) -> Result<BoxedDuplex, LinkError> {
        let id = &self.record.id;
        tokio::select! {
            // Death is checked first: a dead machine's socket may still hold a connection that nobody will
            // answer. Dropping `accept` loses nothing, since a connection not yet accepted stays in the
            // socket's queue; dropping `wait_dead` only ends a watch.
            biased;
            () = self.process.wait_dead() => Err(LinkError::NotRunning(id.clone())),
            link = accept => match link {
                Ok(link) => Ok(Box::new(link)),
                Err(source) => Err(LinkError::Listen { id: id.clone(), source }),
            },
        }
    }
}

/// Returns the outcome of a start. After a failure `undo` removes the remains. If that fails too, `stop` finds them later by
/// the marker.
pub(crate) async fn or_undo<E: std::error::Error>(
    id: &SandboxId,
    outcome: Result<(), E>,
    undo: impl Future<Output = Result<(), StopError>>,
) -> Result<(), E> {
    if let Err(error) = &outcome {
        tracing::warn!(sandbox = %id, error = %ErrorChain(error), "sandbox did not start");
        if let Err(error) = undo.await {
            let error = ErrorChain(&error).to_string();
            tracing::warn!(sandbox = %id, error, "its remains are left to stop");
        }
    }
    outcome
}

#[cfg(test)]
#[path = "sandboxes_tests.rs"]
mod tests;
