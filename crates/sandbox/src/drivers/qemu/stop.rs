//! Removes machines: asks the machine to end, so that its disk is complete; kills it if it does not; deletes the marker last.
//!
//! Works from the marker alone, however far the start came and whichever server made it.

use std::io;
use std::time::Duration;

use tokio::time::timeout;

use super::control;
use super::state::QemuState;
use crate::driver::{SandboxId, StopError};
use crate::host::sandboxes::records::SandboxRecord;

/// Time for a machine to kill its processes and write its memory to its disk. An emulated one is slow.
const CLEAN_END_TIMEOUT: Duration = Duration::from_secs(10);

impl QemuState {
    /// Removes a machine and its marker.
    pub(super) async fn remove(&self, id: &SandboxId) -> Result<(), StopError> {
        let record = self.sandboxes.marked(id)?;
        if let Some(record) = &record {
            // Nobody wants the disk of a trial.
            if !id.is_trial() {
                self.end(record).await;
            }
            self.clear(record).await?;
            if let Some(process) = &record.process {
                // The groups are empty, but a process counts as ended only when it was reaped; the disk is
                // free no earlier.
                process.wait_dead().await;
            }
        }
        self.links.remove(id);
        self.consoles.remove(id);
        self.sandboxes.forget(id, record.as_ref()).await
    }

    /// Kills all processes of a machine and removes its groups.
    pub(super) async fn clear(&self, record: &SandboxRecord) -> Result<(), StopError> {
        let cleared = self.sandboxes.groups(record).clear().await;
        cleared.map_err(StopError::at(&record.id, "remove the control groups"))
    }

    /// Asks a machine to end by itself. The caller kills one that does not.
    async fn end(&self, record: &SandboxRecord) {
        let Some(process) = record.process.as_ref().filter(|process| process.is_alive()) else { return };
        let folder = self.sandboxes.records.directory(&record.id);
        let ended = async {
            // QEMU closes the line for the guest when this connection ends, so it is held until the machine
            // is dead.
            let _line = control::power_off(&folder).await?;
            process.wait_dead().await;
            io::Result::Ok(())
        };
        match timeout(CLEAN_END_TIMEOUT, ended).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(sandbox = %record.id, %error, "machine can't be asked to end"),
            Err(_) => tracing::warn!(sandbox = %record.id, "machine did not end by itself and is killed"),
        }
    }

    /// Removes control groups of this yard without a marker.
    pub(super) async fn sweep(&self) -> io::Result<()> {
        for groups in self.sandboxes.orphaned_groups(|_| false)? {
            groups.clear().await?;
        }
        Ok(())
    }
}
