//! Where things are on disk: `jobs/<id>/` holds `input.txt`, `logs/`, the workspace while it is needed, `output.zip`.
//!
//! Everything is made for this user alone. A file that must be whole is written beside its place, synced and renamed.

use std::io;
use std::path::{Path, PathBuf};

use sandyard_protocol::OutputStream;

use crate::disk::make_folder;
use crate::job::JobId;

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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::disk::{remove_tree, write_durably};

    #[test]
    fn files_and_folders_are_for_this_user_alone() {
        let data = tempfile::tempdir().unwrap();
        let layout = Layout::open(data.path()).unwrap();
        let id = crate::job::random_id().unwrap();
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
