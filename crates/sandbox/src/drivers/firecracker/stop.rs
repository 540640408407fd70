//! Removing machines: the guest is asked to leave so that its disk is whole, then whatever is left is killed and removed, the
//! marker last.
//!
//! Works from the marker alone, however far the start came and whichever process made it. Whatever of this yard has no
//! marker is an orphan of a killed server and removed by `sweep`.

use std::io;
use std::time::Duration;

use tokio::time::timeout;

use super::api::Api;
use super::api::requests::ActionType;
use super::record::Record;
use super::{Yard, jail};
use crate::driver::{FoundSandbox, SandboxId, StopError};
use crate::parts::cgroup::Groups;
use crate::parts::machine_plan::DISK_FILE;

/// How long a guest may take to write back what it has and leave. One that does not is killed; its disk has a journal.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);

impl Yard {
    /// Removes a sandbox and its marker.
    pub(super) async fn remove(&self, id: &SandboxId) -> Result<(), StopError> {
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source| StopError { id: id.clone(), step, source }
        };
        if let Some(record) = self.records.read(id).map_err(failed("read the marker"))? {
            if record.is_alive() {
                self.ask_to_leave(&record).await;
            }
            self.clear(&record).await?;
            self.ids.release(record.user);
        }
        self.consoles.remove(id);
        self.records.delete(id).map_err(failed("delete the marker"))
    }

    /// Kills and removes all of a sandbox but its marker and disk.
    pub(super) async fn clear(&self, record: &Record) -> Result<(), StopError> {
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source| StopError { id: record.id.clone(), step, source }
        };
        self.groups(record).clear().await.map_err(failed("remove the control groups"))?;
        self.links.forget(&record.id);
        self.jails.remove(&record.name).map_err(failed("remove the jail"))?;
        match jail::give(&record.workspace.join(DISK_FILE), rustix::process::geteuid().as_raw()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("take the disk back")(error)),
            _ => Ok(()),
        }
    }

    /// Has the guest shut down. Nothing depends on it: a guest that is dead, hostile or slow is killed after it.
    async fn ask_to_leave(&self, record: &Record) {
        let jail = self.jails.jail(&record.name, &record.id);
        let asked = async {
            Api::new(jail.api(record.user)).put(&ActionType::SendCtrlAltDel.into()).await?;
            if let Some(process) = &record.process {
                process.wait_dead().await;
            }
            Ok::<_, super::api::ApiError>(())
        };
        match timeout(LEAVES_WITHIN, asked).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(sandbox = %record.id, %error, "can't ask a machine to leave"),
            Err(_) => tracing::warn!(sandbox = %record.id, "a machine does not leave, so it is killed"),
        }
    }

    /// Every sandbox with a marker. Removes what has none.
    pub(super) async fn list(&self) -> io::Result<Vec<FoundSandbox>> {
        self.sweep().await?;
        let found = |id: SandboxId| {
            let record = self.records.read(&id)?;
            Ok(FoundSandbox { alive: record.is_some_and(|record| record.is_alive()), id })
        };
        self.records.ids()?.into_iter().map(found).collect()
    }

    /// Removes groups and jails of this yard that no marker owns.
    async fn sweep(&self) -> io::Result<()> {
        // Before the markers: a start writes its marker first, so whatever is seen here has one unless it is an orphan.
        let groups = Groups::all_names(&self.layout, &self.yard)?;
        let jails = self.jails.names()?;
        let records = self.records.all()?;
        let orphan = |name: &&String| !records.iter().any(|record| record.name == **name);
        for name in groups.iter().filter(orphan) {
            tracing::info!(groups = name, "removing control groups without an owner");
            Groups::new(&self.layout, &self.yard, name).clear().await?;
        }
        jails.iter().filter(orphan).try_for_each(|name| self.jails.remove(name))
    }
}
