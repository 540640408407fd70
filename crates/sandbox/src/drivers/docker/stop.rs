//! Removing sandboxes: the container, the groups, the rest on the host, the marker last.
//!
//! Works from the marker alone, however far the start came and whichever process made it. If the engine does
//! not answer, the marker stays and the call is repeated; the machine is killed anyway. Parts of this yard
//! without a marker are orphans of a killed server, which `sweep` removes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::Duration;

use super::container::{self, YARD_LABEL};
use super::state::DockerState;
use crate::driver::{SandboxId, StopError};
use crate::host::cgroup::Groups;
use crate::host::sandboxes::Sandboxes;

/// Deadline for reading a console, which takes milliseconds.
const CONSOLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time for a killed process to end. SIGKILL is immediate except for processes in the middle of disk
/// I/O.
const DEATH_TIMEOUT: Duration = Duration::from_secs(20);

impl DockerState {
    /// Removes a sandbox and its marker.
    pub(super) async fn remove(&self, id: &SandboxId) -> Result<(), StopError> {
        let _alone = self.locks.hold(id).await;
        self.clear(id).await
    }

    /// Removes a sandbox whose lock the caller holds.
    pub(super) async fn clear(&self, id: &SandboxId) -> Result<(), StopError> {
        let record = self.sandboxes.marked(id)?;
        if let Some(process) = record.as_ref().and_then(|record| record.process.as_ref()) {
            process.kill();
            // Waits here, because the engine may not answer.
            let dead = tokio::time::timeout(DEATH_TIMEOUT, process.wait_dead()).await;
            dead.map_err(|error| StopError::at(id, "end its first process")(error.into()))?;
        }
        if record.is_some() {
            self.dismantle(id).await?;
        }
        self.sandboxes.forget(id, record.as_ref()).await
    }

    /// Kills the sandbox's processes and removes everything but marker and disk.
    pub(super) async fn dismantle(&self, id: &SandboxId) -> Result<(), StopError> {
        let failed = |step| StopError::at(id, step);
        // Groups first: the job is dead then, even if the engine does not answer.
        self.sandboxes
            .groups_named(id.as_str())
            .clear()
            .await
            .map_err(failed("remove the control groups"))?;
        let removed = self.engine.remove(&container::name(&self.sandboxes.yard, id)).await;
        removed.map_err(failed("remove the container"))?;
        self.stage.clear(id).map_err(failed("take the disk off the stage"))?;
        remove_directory(&self.boot_directory(id)).map_err(failed("remove the boot document"))?;
        self.links.remove(id).map_err(failed("remove the link directory"))
    }

    /// Logs the last console output of a dead machine, if there is any.
    pub(super) async fn tell_end(&self, id: &SandboxId) {
        let name = container::name(&self.sandboxes.yard, id);
        // The engine itself may have gone away.
        let said = tokio::time::timeout(CONSOLE_TIMEOUT, self.engine.console(&name)).await;
        let said = said.ok().and_then(Result::ok).unwrap_or_default();
        if !said.trim().is_empty() {
            tracing::warn!(sandbox = %id, said = said.trim(), "init ended");
        }
    }

    /// Removes containers, groups and mounts of this yard without a marker, as far as the engine answers.
    pub(super) async fn sweep(&self) {
        if let Err(error) = self.try_sweep().await {
            tracing::warn!(%error, "orphans of this yard may be left; the next list looks again");
        }
    }

    async fn try_sweep(&self) -> io::Result<()> {
        let Sandboxes { yard, layout, .. } = &self.sandboxes;
        // Everything is listed before `without_marker` reads the markers, so a start in between is never
        // taken for an orphan.
        let mut found: BTreeSet<SandboxId> = self.links.ids()?.into_iter().chain(self.stage.ids()?).collect();
        found.extend(Groups::all_names(layout, yard)?.iter().filter_map(|name| SandboxId::parse(name)));
        let containers = match self.engine.containers_with(YARD_LABEL, yard).await {
            // No engine is there, and the host has no trace of this yard's sandboxes.
            Err(_) if found.is_empty() && !self.engine.socket().exists() => Vec::new(),
            containers => containers?,
        };
        found.extend(containers.iter().filter_map(|name| container::sandbox_of(yard, name)));
        for id in self.sandboxes.without_marker(found)? {
            tracing::info!(sandbox = %id, "removing the remains of a sandbox without a marker");
            self.dismantle(&id).await.map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// Removes a directory. Succeeds if there is none.
fn remove_directory(path: &std::path::Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
