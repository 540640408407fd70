//! The durable marker of each sandbox of a driver: `<data>/sandboxes/<id>/record.json`, made before anything else and deleted last.
//!
//! It is written by rename and not synced: everything it guards (processes, groups, mounts, sockets) lives in
//! the kernel's memory and can't outlive a marker lost to a power cut, while the death of a process loses neither.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::driver::{SandboxId, SandboxSpec};
use crate::host::sandboxes::folders;
use crate::host::sandboxes::liveness::ProcessIdentity;

/// Data needed to find, judge and remove a sandbox. Each driver writes the members that it has. A later
/// version of the server must be able to read it, because it adopts sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    /// Id of the sandbox, which is also its container's name.
    pub(crate) id: SandboxId,
    /// First of the sandbox's ids, in the numbering of the launcher's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id_base: Option<u32>,
    /// User that Firecracker runs as, in the place of `id_base`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<u32>,
    /// Name of the control groups, if it is not the sandbox's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) groups: Option<String>,
    /// Name of Firecracker's control groups and jail, in the place of `groups`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The caller's directory that holds the sandbox's disk.
    pub(crate) workspace: PathBuf,
    /// OCI runtime that made the container. The same one must remove it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runtime: Option<PathBuf>,
    /// First process of the sandbox or of its machine; missing until that runs.
    pub(crate) process: Option<ProcessIdentity>,
}

impl SandboxRecord {
    /// Creates the record of a sandbox that is about to be made.
    pub(crate) fn of(spec: &SandboxSpec) -> Self {
        Self {
            id: spec.id.clone(),
            id_base: None,
            user: None,
            groups: None,
            name: None,
            workspace: spec.workspace.clone(),
            runtime: None,
            process: None,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.process.as_ref().is_some_and(ProcessIdentity::is_alive)
    }

    /// Returns the first of the ids that are taken for this sandbox alone, if it has any.
    pub(crate) fn taken_ids(&self) -> Option<u32> {
        self.id_base.or(self.user)
    }

    /// Returns the user that the machine runs as. `u32::MAX` is no user, so a machine without one can't be mistaken for root's.
    pub(crate) fn machine_user(&self) -> u32 {
        self.taken_ids().unwrap_or(u32::MAX)
    }

    /// Returns the name of the control groups.
    pub(crate) fn groups_name(&self) -> &str {
        let other = self.groups.as_deref().or(self.name.as_deref());
        other.unwrap_or_else(|| self.id.as_str())
    }
}

/// All markers of a yard.
#[derive(Debug, Clone)]
pub(crate) struct SandboxRecords {
    directory: PathBuf,
}

impl SandboxRecords {
    /// Opens the directory of markers, making it if need be.
    pub(crate) fn open(data: &Path) -> io::Result<Self> {
        let directory = data.join("sandboxes");
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// Returns the directory of a marker, where the driver may keep files of the sandbox.
    pub(crate) fn directory(&self, id: &SandboxId) -> PathBuf {
        self.directory.join(id.as_str())
    }

    /// Writes or replaces a marker.
    pub(crate) fn write(&self, record: &SandboxRecord) -> io::Result<()> {
        let directory = self.directory(&record.id);
        fs::create_dir_all(&directory)?;
        // By rename, so that a crash never leaves half a record in the place of a whole one.
        let temporary = directory.join("record.json.new");
        fs::write(&temporary, serde_json::to_vec(record).map_err(io::Error::other)?)?;
        fs::rename(temporary, directory.join("record.json"))
    }

    /// Reads a marker. Returns `None` for a directory whose record was never finished.
    pub(crate) fn read(&self, id: &SandboxId) -> io::Result<Option<SandboxRecord>> {
        match fs::read(self.directory(id).join("record.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a marker. Succeeds if there is none.
    pub(crate) fn delete(&self, id: &SandboxId) -> io::Result<()> {
        folders::remove_folder(&self.directory(id))
    }

    /// Returns every sandbox that has a marker, finished or not.
    pub(crate) fn ids(&self) -> io::Result<Vec<SandboxId>> {
        let mut ids = folders::ids_in(&self.directory)?;
        ids.sort();
        Ok(ids)
    }

    pub(crate) fn all(&self) -> io::Result<Vec<SandboxRecord>> {
        self.ids()?.iter().filter_map(|id| self.read(id).transpose()).collect()
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
