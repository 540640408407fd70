//! Removing machines: asked to end first, so that what the job wrote is on its disk; killed if it does not; the marker last.
//!
//! Works from the marker alone, however far the start came and whichever server made it.

use std::io;
use std::time::Duration;

use tokio::time::timeout;

use super::record::Record;
use super::{Yard, control};
use crate::driver::{FoundSandbox, SandboxId, StopError};
use crate::parts::cgroup::Groups;

/// Time to kill everything inside and write what is in the machine's memory to its disk; an emulated one is slow.
const CLEAN_END_WITHIN: Duration = Duration::from_secs(10);

impl Yard {
    /// Removes a machine and its marker.
    pub(super) async fn remove(&self, id: &SandboxId) -> Result<(), StopError> {
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source| StopError { id: id.clone(), step, source }
        };
        let record = self.records.read(id).map_err(failed("read the marker"))?;
        if let Some(record) = &record {
            self.end(record).await;
            self.groups(id).clear().await.map_err(failed("remove the control groups"))?;
            if let Some(process) = &record.process {
                process.wait_dead().await;
            }
            self.ids.release(record.id_base);
        }
        self.links.remove(id);
        self.consoles.remove(id);
        self.records.delete(id).map_err(failed("delete the marker"))
    }

    /// Has a machine end by itself. One that does not is killed by whoever called.
    async fn end(&self, record: &Record) {
        let Some(process) = record.process.as_ref().filter(|process| process.is_alive()) else { return };
        let folder = self.records.directory(&record.id);
        let ended = async {
            let _line = control::power_off(&folder).await?;
            process.wait_dead().await;
            io::Result::Ok(())
        };
        match timeout(CLEAN_END_WITHIN, ended).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(sandbox = %record.id, %error, "machine can't be asked to end"),
            Err(_) => tracing::warn!(sandbox = %record.id, "machine did not end by itself and is killed"),
        }
    }

    /// Every machine with a marker. Removes what has none.
    pub(super) async fn list(&self) -> io::Result<Vec<FoundSandbox>> {
        let names = Groups::all_names(&self.layout, &self.yard)?;
        let ids = self.records.ids()?;
        for name in names.iter().filter(|name| ids.iter().all(|id| id.as_str() != name.as_str())) {
            tracing::info!(groups = name, "removing control groups without an owner");
            Groups::new(&self.layout, &self.yard, name).clear().await?;
        }
        let alive = |record: Option<Record>| record.is_some_and(|record| record.is_alive());
        ids.into_iter().map(|id| Ok(FoundSandbox { alive: alive(self.records.read(&id)?), id })).collect()
    }
}
