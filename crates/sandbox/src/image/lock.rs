//! One builder at a time for each image.
//!
//! An flock on a file of the cache. The kernel releases it when its holder dies, however it dies.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// A lock that is released when this is dropped.
pub(super) struct ImageLock {
    _file: File,
}

impl ImageLock {
    /// Takes the lock `name` below `directory`; waits while another process holds it.
    pub(super) fn take(directory: &Path, name: &str) -> io::Result<Self> {
        let file = open(directory, name)?;
        file.lock()?;
        Ok(Self { _file: file })
    }

    /// Takes the lock `name` below `directory`, or returns `None` if another process holds it.
    pub(super) fn try_take(directory: &Path, name: &str) -> io::Result<Option<Self>> {
        let file = open(directory, name)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn open(directory: &Path, name: &str) -> io::Result<File> {
    fs::create_dir_all(directory)?;
    OpenOptions::new().create(true).truncate(false).write(true).open(directory.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_waits_until_the_first_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        let first = ImageLock::try_take(directory.path(), "a").unwrap();
        assert!(first.is_some());
        assert!(ImageLock::try_take(directory.path(), "a").unwrap().is_none());
        assert!(ImageLock::try_take(directory.path(), "b").unwrap().is_some());
        drop(first);
        assert!(ImageLock::try_take(directory.path(), "a").unwrap().is_some());
    }
}
