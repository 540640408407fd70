//! Where things are on disk: `jobs/<id>/` holds `input.txt`, `logs/`, the workspace while it is needed, `output.zip`.
//!
//! Everything is made for this user alone. A file that must be whole is written beside its place, synced and renamed.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sandyard_protocol::OutputStream;

use crate::job_id::JobId;

/// The folders of a yard.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    jobs: PathBuf,
}

impl Layout {
    /// The folders below a data directory, made if missing.
    pub(crate) fn open(data: &Path) -> io::Result<Self> {
        let jobs = data.join("jobs");
        make_folder(&jobs)?;
        Ok(Self { jobs })
    }

    /// Where all jobs are.
    pub(crate) fn jobs(&self) -> &Path {
        &self.jobs
    }

    /// Everything of one job.
    pub(crate) fn job(&self, id: &JobId) -> PathBuf {
        self.jobs.join(id.as_str())
    }

    /// What it was asked to do, for people.
    pub(crate) fn input(&self, id: &JobId) -> PathBuf {
        self.job(id).join("input.txt")
    }

    /// The directory a driver keeps the machine's disk in.
    pub(crate) fn workspace(&self, id: &JobId) -> PathBuf {
        self.job(id).join("workspace")
    }

    /// The artifact.
    pub(crate) fn artifact(&self, id: &JobId) -> PathBuf {
        self.job(id).join("output.zip")
    }

    /// What its workspace was at the start, while that is needed: `pack`, of git's, and `tree`, the id of what counts in it.
    pub(crate) fn start(&self, id: &JobId) -> PathBuf {
        self.job(id).join("start")
    }

    /// The last picture of its desktop.
    pub(crate) fn screenshot(&self, id: &JobId) -> PathBuf {
        self.job(id).join("screenshot.png")
    }

    /// Large chunks of a stream.
    pub(crate) fn chunks(&self, id: &JobId, stream: OutputStream) -> PathBuf {
        self.job(id).join("logs").join(name(stream))
    }

    /// The whole log of a stream, once the job has ended.
    pub(crate) fn log(&self, id: &JobId, stream: OutputStream) -> PathBuf {
        self.job(id).join("logs").join(format!("{}.log", name(stream)))
    }

    /// One large chunk.
    pub(crate) fn chunk(&self, id: &JobId, stream: OutputStream, number: u64) -> PathBuf {
        self.chunks(id, stream).join(number.to_string())
    }
}

fn name(stream: OutputStream) -> &'static str {
    match stream {
        OutputStream::Stdout => "stdout",
        OutputStream::Stderr => "stderr",
    }
}

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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_and_folders_are_for_this_user_alone() {
        let data = tempfile::tempdir().unwrap();
        let layout = Layout::open(data.path()).unwrap();
        let id = crate::job_id::random().unwrap();
        make_folder(&layout.job(&id)).unwrap();
        write_durably(&layout.input(&id), &[b"echo", b" hi"]).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&layout.job(&id)), 0o700);
        assert_eq!(mode(&layout.input(&id)), 0o600);
        assert_eq!(std::fs::read(layout.input(&id)).unwrap(), b"echo hi");
        remove_tree(&layout.job(&id)).unwrap();
        remove_tree(&layout.job(&id)).unwrap();
    }
}
