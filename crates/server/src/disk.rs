//! Files on the host's disk: private to this user, and whole or absent after a crash.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::io::Errno;

/// Makes a folder and its parents for this user alone.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes the data folder, or rejects one in which another user could exchange files.
pub(crate) fn make_data_folder(path: &Path) -> io::Result<()> {
    make_folder(path)?;
    let found = std::fs::metadata(path)?;
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own && found.uid() != 0 {
        let reason = format!("it belongs to user {}; make it yours with chown", found.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    // Root's, open to this user's own group, and nobody can exchange what is another's: the folder of a server without
    // privileges.
    let shared = found.uid() == 0
        && found.mode() & 0o7777 == 0o1770
        && found.gid() == rustix::process::getegid().as_raw();
    if found.mode() & 0o022 != 0 && !shared {
        let reason =
            format!("other users can write to it (mode {:o}); run chmod go-w on it", found.mode() & 0o777);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    Ok(())
}

/// Opens a new file for this user alone, for writing and reading. A file that a crash left is truncated.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Writes a whole file durably: temporary file, sync, rename, sync of the folder.
pub(crate) fn write_durably(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let temporary = path.with_extension("partial");
    let mut file = new_file(&temporary)?;
    for part in parts {
        file.write_all(part)?;
    }
    // Before the rename: otherwise a power failure could leave the new name with no or half the content.
    file.sync_all()?;
    place_durably(&temporary, path)
}

/// Renames a synced file into its place, durably.
fn place_durably(from: &Path, to: &Path) -> io::Result<()> {
    // The rename replaces the old file in one step; the sync of the folder makes it durable.
    std::fs::rename(from, to)?;
    match to.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Removes a tree. Succeeds if it is missing, so that an interrupted removal can be repeated.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    missing_is_fine(std::fs::remove_dir_all(path))
}

/// Removes a file. Succeeds if it is missing.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    missing_is_fine(std::fs::remove_file(path))
}

fn missing_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// True if a call failed because the process or the host has no file descriptor left.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    // `io::Error::other` hides the error within from the chain of sources.
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>());
    matches!(code, Some(Errno::MFILE | Errno::NFILE)) || inner.is_some_and(is_out_of_files)
}

/// True if the process has no file descriptor left, for errors that do not say so.
pub(crate) fn has_no_descriptor() -> bool {
    let copied = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 0);
    copied.is_err_and(|error| matches!(error, Errno::MFILE | Errno::NFILE))
}

/// Runs work that blocks on the disk on a thread of the blocking pool.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_data_folder_that_others_can_write_to_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("a/data");
        make_data_folder(&data).unwrap();
        assert_eq!(std::fs::metadata(&data).unwrap().mode() & 0o777, 0o700);
        for mode in [0o720, 0o702, 0o777] {
            std::fs::set_permissions(&data, std::fs::Permissions::from_mode(mode)).unwrap();
            let refused = make_data_folder(&data).unwrap_err().to_string();
            assert!(refused.contains("chmod"), "{refused}");
        }
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
        make_data_folder(&data).unwrap();
    }
}
