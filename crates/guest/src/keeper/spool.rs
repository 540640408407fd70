//! Keeper's own disk, for state that must outlive keeper but not the machine: small JSON documents, each replaced as a whole, and
//! a directory of output for each process.
//!
//! Nothing is synced to the device: the page cache outlives a killed keeper, and when the machine dies the spool goes
//! with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandyard_protocol::ProcessId;
use serde::{Serialize, de::DeserializeOwned};

/// The spool could not be used; keeper can't go on without it.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}", path.display())]
pub struct SpoolError {
    what: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl SpoolError {
    pub(super) fn new(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self { what, path: path.to_owned(), source }
    }
}

/// Keeper's directory of documents and output, hidden from the job.
#[derive(Debug)]
pub(super) struct Spool {
    root: PathBuf,
}

impl Spool {
    /// Opens the spool, making it if there is none.
    pub(super) fn open(root: PathBuf) -> Result<Self, SpoolError> {
        let output = root.join("output");
        fs::create_dir_all(&output).map_err(|error| SpoolError::new("make the spool", &output, error))?;
        Ok(Self { root })
    }

    /// Loads a document, if it was ever written.
    pub(super) fn load<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, SpoolError> {
        load(&self.root.join(name))
    }

    pub(super) fn store<T: Serialize>(&self, name: &str, document: &T) -> Result<(), SpoolError> {
        store(&self.root.join(name), document)
    }

    /// Path of a file or directory in the spool.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Directory of the output of a process. Ids are keeper's own, so they are plain names.
    pub(super) fn process(&self, id: &ProcessId) -> PathBuf {
        self.root.join("output").join(&id.0)
    }

    /// All processes that have a directory.
    pub(super) fn processes(&self) -> Result<Vec<ProcessId>, SpoolError> {
        let path = self.root.join("output");
        let failed = |error| SpoolError::new("list", &path, error);
        let mut ids = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
                ids.push(ProcessId(name));
            }
        }
        Ok(ids)
    }
}

pub(super) fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, SpoolError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SpoolError::new("read", path, error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| SpoolError::new("understand", path, error.into()))
}

/// Replaces a document in one step.
pub(super) fn store<T: Serialize>(path: &Path, document: &T) -> Result<(), SpoolError> {
    let new = path.with_extension("new");
    let text = serde_json::to_vec(document).map_err(|error| SpoolError::new("encode", path, error.into()))?;
    // Under another name first: a keeper that is killed in the middle leaves the old document whole.
    fs::write(&new, text).map_err(|error| SpoolError::new("write", &new, error))?;
    fs::rename(&new, path).map_err(|error| SpoolError::new("replace", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_there_after_a_restart_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        assert_eq!(spool.load::<u64>("epoch.json").unwrap(), None);
        spool.store("epoch.json", &7_u64).unwrap();
        spool.store("epoch.json", &8_u64).unwrap();
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        assert_eq!(spool.load::<u64>("epoch.json").unwrap(), Some(8));
        fs::write(folder.path().join("epoch.json"), "8, perhaps").unwrap();
        assert!(spool.load::<u64>("epoch.json").is_err());
    }
}
