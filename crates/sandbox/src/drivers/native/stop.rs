//! Removing sandboxes: kill the groups, wait until they are empty, remove what they held, the marker last.
//!
//! Works from the marker alone, however far the start came and whichever process made it. Whatever of this yard has no
//! marker is an orphan of a killed server and removed by `sweep`.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Yard;
use super::cgroup::Groups;
use super::disk;
use super::liveness::ProcessIdentity;
use super::record::Record;
use crate::driver::{FoundSandbox, SandboxId, StopError};

/// SIGKILL is immediate but for processes in the middle of disk I/O.
const EMPTY_WITHIN: Duration = Duration::from_secs(20);
/// The kernel writes a dirty disk back before it lets go of it: 4 GiB at the pace of a slow disk.
const RELEASED_WITHIN: Duration = Duration::from_secs(120);
/// The first pause between two looks, doubled up to `LONGEST_PAUSE`: most sandboxes are gone in about a millisecond.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

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
            poll(RELEASED_WITHIN, || disk::is_released(&record.workspace))
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
        remove_groups(groups).await.map_err(failed("remove the control groups"))?;
        self.links.remove(id).map_err(failed("remove the link directory"))
    }

    /// Every sandbox with a marker. Removes what has none.
    pub(super) async fn list(&self) -> io::Result<Vec<FoundSandbox>> {
        self.sweep().await?;
        let alive = |record: Option<Record>| {
            record.and_then(|record| record.process).is_some_and(|process| process.is_alive())
        };
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
            remove_groups(&Groups::new(&self.layout, &self.yard, name)).await?;
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

/// Kills whatever is in the groups and removes them.
pub(super) async fn remove_groups(groups: &Groups) -> io::Result<()> {
    let emptied = || {
        groups.kill()?;
        match groups.remove() {
            Ok(()) => Ok(true),
            // Somebody is still on the way out.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            Err(error) => Err(error),
        }
    };
    poll(EMPTY_WITHIN, emptied).await
}

/// Asks until the answer is yes or time is up.
async fn poll(within: Duration, ask: impl Fn() -> io::Result<bool>) -> io::Result<()> {
    let deadline = Instant::now() + within;
    let mut pause = FIRST_PAUSE;
    while !ask()? {
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}
