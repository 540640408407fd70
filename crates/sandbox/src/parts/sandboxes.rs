//! The sandboxes of one driver on this host: for each a marker, ids of its own and control groups.
//!
//! A driver makes machines. What it can say of them does not depend on how: whether one lives is told by its first process, what it
//! used by its groups, and whatever of the yard has no marker is an orphan of a killed server. All of it works from the
//! markers alone, whichever process made the sandbox. `Remembered` is what they tell before the host has been looked at.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::cgroup::{GroupLimits, Groups, Layout};
use super::ids::{IdPool, Supply};
use super::layout::KEEPER_ID;
use super::links::Links;
use super::liveness::ProcessIdentity;
use super::records::{Record, Records};
use super::{disk, patience, yard_id};
use crate::driver::{
    BindError, Binding, BindingPart, BoxedDuplex, Duplex, FoundSandbox, LinkError, Liveness, OpenError,
    SandboxId, StartError, StopError, Usage, UsageError, with_sources,
};

/// The kernel writes a dirty disk back before it lets go of it: 4 GiB at the pace of a slow disk.
const RELEASED_WITHIN: Duration = Duration::from_secs(120);

/// What a data directory says of its sandboxes.
#[derive(Debug)]
pub(crate) struct Remembered {
    /// The yard's id.
    pub(crate) yard: String,
    /// Whether a sandbox of it runs. Then the driver must be opened, or fail: it can't be merely unusable.
    pub(crate) in_use: bool,
    records: Records,
    known: Vec<Record>,
}

impl Remembered {
    /// Reads the markers in the driver's own directory, making it if need be.
    pub(crate) fn of(data: &Path) -> Result<Self, OpenError> {
        fs::create_dir_all(data).map_err(OpenError::prepare("make the data directory"))?;
        let yard = yard_id::of(data).map_err(OpenError::prepare("read the yard's id"))?;
        let records = Records::open(data).map_err(OpenError::prepare("open the markers"))?;
        let known = records.all().map_err(OpenError::prepare("read the markers"))?;
        Ok(Self { yard, in_use: known.iter().any(Record::is_alive), records, known })
    }

    /// The sandboxes, on a host that has been found to have these control groups and ids.
    pub(crate) fn on_host(self, layout: Layout, supply: Supply) -> Sandboxes {
        let ids = IdPool::with_taken(supply, self.known.iter().filter_map(Record::taken_ids));
        Sandboxes { yard: self.yard, layout, records: self.records, ids }
    }
}

/// All sandboxes of a driver.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    /// The yard's id.
    pub(crate) yard: String,
    /// Where their control groups are.
    pub(crate) layout: Layout,
    /// Their markers.
    pub(crate) records: Records,
    /// Their ids.
    pub(crate) ids: IdPool,
}

impl Sandboxes {
    /// The control groups of a sandbox.
    pub(crate) fn groups(&self, record: &Record) -> Groups {
        self.groups_named(record.groups_name())
    }

    /// Those of that name, whosever they are.
    pub(crate) fn groups_named(&self, name: &str) -> Groups {
        Groups::new(&self.layout, &self.yard, name)
    }

    /// Keeper's user and group, as the host numbers them.
    pub(crate) fn keeper_on_host(&self, record: &Record) -> u32 {
        record.taken_ids().map_or(KEEPER_ID, |base| self.ids.keeper_on_host(base))
    }

    /// A sandbox whose first process is known, dead or alive.
    pub(crate) fn running(&self, id: &SandboxId) -> Result<Running, LinkError> {
        let record = self.records.read(id).ok().flatten();
        let running = record.and_then(|record| Some(Running { process: record.process.clone()?, record }));
        running.ok_or_else(|| LinkError::NotRunning(id.clone()))
    }

    /// The next link of a sandbox that dials in its link directory.
    pub(crate) async fn next_link(&self, id: &SandboxId, links: &Links) -> Result<BoxedDuplex, LinkError> {
        let running = self.running(id)?;
        running.link(links.accept(id, self.keeper_on_host(&running.record))).await
    }

    /// Returns when a sandbox is dead.
    pub(crate) async fn wait_dead(&self, id: &SandboxId) {
        if let Ok(running) = self.running(id) {
            running.process.wait_dead().await;
        }
    }

    /// Every sandbox that has a marker.
    pub(crate) fn found(&self) -> io::Result<Vec<FoundSandbox>> {
        let alive = |record: Option<Record>| record.is_some_and(|record| record.is_alive());
        let found = |id: SandboxId| {
            Ok(FoundSandbox { liveness: Liveness::known(alive(self.records.read(&id)?)), id })
        };
        self.records.ids()?.into_iter().map(found).collect()
    }

    /// What a sandbox used, by the host's count.
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
        let limits = GroupLimits { job: binding.limits, disk_in_memory_mib: 0 };
        self.groups(&running.record).limit(limits).map_err(|source| BindError::Step {
            id: id.clone(),
            step: "limit the control groups",
            source,
        })
    }

    /// What there is of a sandbox that is to be started.
    pub(crate) fn before(&self, id: &SandboxId) -> Result<Before, StartError> {
        let record = self.records.read(id).map_err(StartError::at("read the marker"))?;
        Ok(record.map_or(Before::Nothing, |record| match record.is_alive() {
            true => Before::Running,
            false => Before::Dead,
        }))
    }

    /// The marker of a sandbox that is to be removed.
    pub(crate) fn marked(&self, id: &SandboxId) -> Result<Option<Record>, StopError> {
        self.records.read(id).map_err(StopError::at(id, "read the marker"))
    }

    /// The end of a removal: once its disk is free, its ids are given back and its marker is deleted.
    pub(crate) async fn forget(&self, id: &SandboxId, record: Option<&Record>) -> Result<(), StopError> {
        if let Some(record) = record {
            let released = patience::poll(RELEASED_WITHIN, || disk::is_released(&record.workspace)).await;
            released.map_err(StopError::at(id, "release the disk"))?;
            if let Some(base) = record.taken_ids() {
                self.ids.release(base);
            }
        }
        self.records.delete(id).map_err(StopError::at(id, "delete the marker"))
    }

    /// Those of `seen` that have no marker. A start writes its marker first, so what was seen before this call and has none is
    /// nobody's.
    pub(crate) fn without_marker(
        &self,
        seen: impl IntoIterator<Item = SandboxId>,
    ) -> io::Result<Vec<SandboxId>> {
        let marked = self.records.ids()?;
        Ok(seen.into_iter().filter(|id| !marked.contains(id)).collect())
    }

    /// Control groups of this yard that no marker names, but for those that the driver `keeps` for sandboxes to come.
    pub(crate) fn orphaned_groups(&self, keeps: impl Fn(&str) -> bool) -> io::Result<Vec<Groups>> {
        // Markers last, for the same reason. What the driver kept until then has a marker by now.
        let mut names = Groups::all_names(&self.layout, &self.yard)?;
        names.retain(|name| !keeps(name));
        let records = self.records.all()?;
        names.retain(|name| !records.iter().any(|record| record.groups_name() == name));
        let groups = |name: &String| {
            tracing::info!(groups = name, "removing control groups without an owner");
            self.groups_named(name)
        };
        Ok(names.iter().map(groups).collect())
    }
}

impl Drop for Sandboxes {
    fn drop(&mut self) {
        // Only what is empty goes.
        Groups::remove_yard(&self.layout, &self.yard);
    }
}

/// What a start may find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// The sandbox has no marker.
    Nothing,
    /// It runs, so there is nothing to do.
    Running,
    /// It has ended, or never came to run; what is left must be removed first.
    Dead,
}

/// A sandbox and its first process.
#[derive(Debug)]
pub(crate) struct Running {
    /// Its marker.
    pub(crate) record: Record,
    process: ProcessIdentity,
}

impl Running {
    /// The link that `accept` waits for, unless the sandbox dies first.
    pub(crate) async fn link<L: Duplex>(
        &self,
        accept: impl Future<Output = io::Result<L>>,
    ) -> Result<BoxedDuplex, LinkError> {
        let id = &self.record.id;
        tokio::select! {
            // A dead machine's socket may still hold a connection that nobody will ever answer on.
            biased;
            () = self.process.wait_dead() => Err(LinkError::NotRunning(id.clone())),
            link = accept => match link {
                Ok(link) => Ok(Box::new(link)),
                Err(source) => Err(LinkError::Listen { id: id.clone(), source }),
            },
        }
    }
}

/// What a start came to. If it failed, `undo` removes what it made; what can't be removed now is left to `stop`, which finds it by
/// its marker.
pub(crate) async fn or_undo<E: std::error::Error>(
    id: &SandboxId,
    outcome: Result<(), E>,
    undo: impl Future<Output = Result<(), StopError>>,
) -> Result<(), E> {
    if let Err(error) = &outcome {
        tracing::warn!(sandbox = %id, error = with_sources(error), "sandbox did not start");
        if let Err(error) = undo.await {
            let error = with_sources(&error);
            tracing::warn!(sandbox = %id, error, "what it left will be removed by stop");
        }
    }
    outcome
}

#[cfg(test)]
#[path = "sandboxes_tests.rs"]
mod tests;
