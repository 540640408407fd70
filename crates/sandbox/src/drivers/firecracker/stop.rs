//! Removing machines: the guest is asked to end so that its disk is whole, then the rest is killed and
//! removed, the marker last.
//!
//! Works from the marker alone, however far the start came and whichever process made it. Parts of this yard
//! without a marker are orphans of a killed server, which `sweep` removes.

use std::io;
use std::time::Duration;

use tokio::time::timeout;

use super::api::FirecrackerApi;
use super::api::requests::ActionType;
use super::jail;
use super::state::FirecrackerState;
use crate::driver::{SandboxId, StopError};
use crate::host::sandboxes::records::SandboxRecord;
use crate::host::vm::machine_plan::DISK_FILE;

/// Time for a guest to write back its disk and end. The guest is killed afterwards; its disk has a journal.
const CLEAN_END_TIMEOUT: Duration = Duration::from_secs(10);

impl FirecrackerState {
    /// Removes a sandbox and its marker.
    pub(super) async fn remove(&self, id: &SandboxId) -> Result<(), StopError> {
        let record = self.sandboxes.marked(id)?;
        if let Some(record) = &record {
            // Nobody wants the disk of a trial.
            if record.is_alive() && !id.is_trial() {
                self.ask_to_leave(record).await;
            }
            self.clear(record).await?;
        }
        self.consoles.remove(id);
        self.sandboxes.forget(id, record.as_ref()).await
    }

    /// Kills the machine and removes its groups and jail, but neither marker nor disk.
    pub(super) async fn clear(&self, record: &SandboxRecord) -> Result<(), StopError> {
        let failed = |step| StopError::at(&record.id, step);
        // Processes first: one that still runs could put new files into the jail while it is removed.
        self.sandboxes.groups(record).clear().await.map_err(failed("remove the control groups"))?;
        self.links.forget(&record.id);
        self.jails.remove(record.groups_name()).map_err(failed("remove the jail"))?;
        match jail::give(&record.workspace.join(DISK_FILE), rustix::process::geteuid().as_raw()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("take the disk back")(error)),
            _ => Ok(()),
        }
    }

    /// Asks the guest to shut down. Nothing depends on it: a guest that is dead, hostile or slow is killed afterwards.
    async fn ask_to_leave(&self, record: &SandboxRecord) {
        let api = FirecrackerApi::new(self.jail(record).api(record.machine_user()));
        let asked = async {
            api.put(&ActionType::SendCtrlAltDel.into()).await?;
            if let Some(process) = &record.process {
                process.wait_dead().await;
            }
            Ok::<_, super::api::FirecrackerApiError>(())
        };
        match timeout(CLEAN_END_TIMEOUT, asked).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(sandbox = %record.id, %error, "could not ask a machine to end"),
            Err(_) => tracing::warn!(sandbox = %record.id, "a machine did not end in time and is killed"),
        }
    }

    /// Removes groups and jails of this yard that no marker owns.
    pub(super) async fn sweep(&self) -> io::Result<()> {
        // Names are listed before the markers are read: a start writes its marker first, so a jail without
        // one is an orphan.
        let mut jails = self.jails.names()?;
        for groups in self.sandboxes.orphaned_groups(|_| false)? {
            groups.clear().await?;
        }
        let marked = self.sandboxes.marked_groups()?;
        jails.retain(|name| !marked.contains(name));
        jails.iter().try_for_each(|name| self.jails.remove(name))
    }
}
