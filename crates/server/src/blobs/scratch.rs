//! Files that are still being written. A crash leaves them behind; the next server empties the folder.
//!
//! The folder is beside `jobs/`, so that a file moves into its place by a rename. Only the server that holds the store's lock
//! may open it.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use super::{BlobStream, Durability};
use crate::disk;

/// Bytes read from a file at once: few system calls, little memory for each of many slow readers.
const READ_BYTES: usize = 64 * 1024;

/// The scratch folder of a yard.
#[derive(Debug, Clone)]
pub(crate) struct Scratch {
    folder: Arc<Path>,
    /// The number of the next file. Names need no randomness: there is one server, and it found the folder empty.
    next: Arc<AtomicU64>,
}

/// A file in the scratch folder; it is removed when this is dropped, unless it was put into its place.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    file: File,
    name: ScratchName,
}

#[derive(Debug)]
struct ScratchName(PathBuf);

impl Drop for ScratchName {
    fn drop(&mut self) {
        // A file that was renamed is not here any more; whatever can't be removed goes at the next start.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Scratch {
    /// Makes the folder below a data directory, and removes files that a crash left in it.
    pub(crate) fn open(data: &Path) -> io::Result<Self> {
        let folder = data.join("scratch");
        // The caller holds the store's lock, so every file here was left by a dead server.
        disk::remove_tree(&folder)?;
        disk::make_folder(&folder)?;
        Ok(Self { folder: folder.into(), next: Arc::default() })
    }

    /// Makes an empty file; blocks.
    pub(crate) fn file(&self) -> io::Result<ScratchFile> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(number.to_string());
        let file = disk::new_file(&path)?;
        Ok(ScratchFile { file, name: ScratchName(path) })
    }
}

impl ScratchFile {
    /// Returns another handle of the same file. Both share one position.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Removes the file's name and returns the handle. The disk space is free once the handle is closed.
    pub(crate) fn into_unnamed(self) -> File {
        self.file
    }

    /// Writes the bytes to stable storage, if they must be there; blocks.
    pub(super) fn sync(&self, durability: Durability) -> io::Result<()> {
        match durability {
            Durability::Synced => self.file.sync_data(),
            Durability::Copy => Ok(()),
        }
    }

    /// Renames the synced file. The new name is durable once its folder is synced; blocks.
    pub(super) fn rename(self, target: &Path) -> io::Result<()> {
        match std::fs::rename(&self.name.0, target) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => self.copy(target),
            renamed => renamed,
        }
    }

    /// Copies the file to another disk: an operator may have `jobs/` on a disk of its own.
    fn copy(self, target: &Path) -> io::Result<()> {
        let number = self.name.0.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Copied beside the target and renamed: a reader never sees half of the file.
        let beside = ScratchName(target.with_extension(format!("partial-{number}")));
        let mut copy = disk::new_file(&beside.0)?;
        io::copy(&mut File::open(&self.name.0)?, &mut copy)?;
        // Synced before the rename, as in the usual case, even for copies: this path is rare.
        copy.sync_data()?;
        std::fs::rename(&beside.0, target)
    }
}

/// The bytes of an open file from `start` on. Does not block: a seek only sets the position.
pub(crate) fn read_file(mut file: File, start: u64, length: u64) -> io::Result<BlobStream> {
    file.seek(SeekFrom::Start(start))?;
    let file = tokio::fs::File::from_std(file);
    Ok(Box::pin(ReaderStream::with_capacity(file.take(length), READ_BYTES)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_that_is_not_placed_is_removed() {
        let data = tempfile::tempdir().unwrap();
        let scratch = Scratch::open(data.path()).unwrap();
        let (dropped, placed) = (scratch.file().unwrap(), scratch.file().unwrap());
        drop(dropped);
        placed.rename(&data.path().join("placed")).unwrap();
        assert_eq!(std::fs::read_dir(data.path().join("scratch")).unwrap().count(), 0);
        assert!(data.path().join("placed").exists());
    }

    #[test]
    fn a_file_reaches_another_disk_too() {
        let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        if data.path().metadata().unwrap().dev() == other.path().metadata().unwrap().dev() {
            eprintln!("skipped: needs /dev/shm to be a file system of its own");
            return;
        }
        let file = Scratch::open(data.path()).unwrap().file().unwrap();
        std::io::Write::write_all(&mut file.handle().unwrap(), b"bytes").unwrap();
        file.rename(&other.path().join("output.zip")).unwrap();
        assert_eq!(std::fs::read(other.path().join("output.zip")).unwrap(), b"bytes");
        assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(data.path().join("scratch")).unwrap().count(), 0);
    }
}
