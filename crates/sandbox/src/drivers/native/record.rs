//! The marker of each sandbox: `<data>/sandboxes/<id>/record.json`, made before anything else and deleted last.
//!
//! It is written by rename and not synced: everything it guards (processes, groups, mounts, sockets) lives in
//! the kernel's memory and can't outlive a marker lost to a power cut, while the death of a process loses neither.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::liveness::ProcessIdentity;
use crate::driver::SandboxId;

/// What must be known to find, judge and remove a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Its name.
    pub(super) id: SandboxId,
    /// First of its ids, as the launcher numbers them.
    pub(super) id_base: u32,
    /// Name of its control groups.
    pub(super) groups: String,
    /// The caller's directory with its disk.
    pub(super) workspace: PathBuf,
    /// Its first process; missing until that runs.
    pub(super) process: Option<ProcessIdentity>,
}

/// All markers of a yard.
#[derive(Debug, Clone)]
pub(super) struct Records {
    directory: PathBuf,
}

impl Records {
    /// Opens the directory of markers, making it if need be.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        let directory = data.join("sandboxes");
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// Writes or replaces a marker.
    pub(super) fn write(&self, record: &Record) -> io::Result<()> {
        let directory = self.directory.join(record.id.as_str());
        fs::create_dir_all(&directory)?;
        let temporary = directory.join("record.json.new");
        fs::write(&temporary, serde_json::to_vec(record).map_err(io::Error::other)?)?;
        fs::rename(temporary, directory.join("record.json"))
    }

    /// Reads a marker. One whose record was never finished has none.
    pub(super) fn read(&self, id: &SandboxId) -> io::Result<Option<Record>> {
        match fs::read(self.directory.join(id.as_str()).join("record.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a marker; harmless if there is none.
    pub(super) fn delete(&self, id: &SandboxId) -> io::Result<()> {
        match fs::remove_dir_all(self.directory.join(id.as_str())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Every sandbox that has a marker, finished or not.
    pub(super) fn ids(&self) -> io::Result<Vec<SandboxId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            ids.extend(entry?.file_name().to_str().and_then(SandboxId::parse));
        }
        ids.sort();
        Ok(ids)
    }

    /// Every finished marker.
    pub(super) fn all(&self) -> io::Result<Vec<Record>> {
        self.ids()?.iter().filter_map(|id| self.read(id).transpose()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str) -> Record {
        Record {
            id: SandboxId::parse(id).unwrap(),
            id_base: 0x4000_0000,
            groups: "s1".into(),
            workspace: "/w".into(),
            process: None,
        }
    }

    #[test]
    fn a_marker_is_found_until_it_is_deleted() {
        let data = tempfile::tempdir().unwrap();
        let records = Records::open(data.path()).unwrap();
        let one = record("one");
        records.write(&one).unwrap();
        assert_eq!(records.read(&one.id).unwrap(), Some(one.clone()));
        assert_eq!(records.all().unwrap(), vec![one.clone()]);
        records.delete(&one.id).unwrap();
        records.delete(&one.id).unwrap();
        assert_eq!(records.ids().unwrap(), vec![]);
    }

    #[test]
    fn a_half_made_marker_is_listed_but_has_no_record() {
        let data = tempfile::tempdir().unwrap();
        let records = Records::open(data.path()).unwrap();
        fs::create_dir(data.path().join("sandboxes/half")).unwrap();
        let half = SandboxId::parse("half").unwrap();
        assert_eq!(records.ids().unwrap(), vec![half.clone()]);
        assert_eq!(records.read(&half).unwrap(), None);
    }
}
