//! Files on the host's disk: private to this user, and whole or absent after a crash.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// Makes a folder and its parents for this user alone.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a new file for this user alone; one that a crash left is replaced.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Puts a whole file in its place, durably: temporary file, sync, rename, sync of the folder.
pub(crate) fn write_durably(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let temporary = path.with_extension("partial");
    let mut file = new_file(&temporary)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.sync_all()?;
    place_durably(&temporary, path)
}

/// Writes files, durably, whose names nobody knows yet, into folders that are made if missing.
pub(crate) fn write_all_durably(files: &[(PathBuf, Bytes)]) -> io::Result<()> {
    let folders: BTreeSet<&Path> = files.iter().filter_map(|(path, _)| path.parent()).collect();
    for folder in &folders {
        make_folder(folder)?;
    }
    let mut written = Vec::with_capacity(files.len());
    for (path, bytes) in files {
        let mut file = new_file(path)?;
        file.write_all(bytes)?;
        written.push(file);
    }
    // All of them are on their way to the disk before the first is waited for.
    for file in &written {
        file.sync_data()?;
    }
    for folder in folders {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Renames a synced file into its place, durably.
pub(crate) fn place_durably(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    match to.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Removes a tree; one that is not there is removed already.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Runs something that blocks on the disk off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
