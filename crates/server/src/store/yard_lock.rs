//! The lock of a yard: one server at a time works on a data directory.

use std::fs::File;
use std::path::Path;

use super::OpenStoreError;

/// The lock of a data directory, until it is dropped. Nothing in the directory is made or changed without it.
#[derive(Debug)]
pub(crate) struct YardLock {
    _file: File,
}

impl YardLock {
    /// Takes the yard, or fails with [`OpenStoreError::Held`] if another server has it.
    pub(crate) fn take(data: &Path) -> Result<Self, OpenStoreError> {
        let path = data.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|source| OpenStoreError::Prepare { path: path.clone(), source })?;
        // The kernel releases the lock when the process dies, however it dies, so no stale lock can block a start.
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(std::fs::TryLockError::WouldBlock) => Err(OpenStoreError::Held { path: data.to_owned() }),
            Err(std::fs::TryLockError::Error(source)) => Err(OpenStoreError::Prepare { path, source }),
        }
    }
}
