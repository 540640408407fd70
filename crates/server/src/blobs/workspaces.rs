//! The folders in which drivers on this host keep the disks of sandboxes: `jobs/<id>/workspace`.
//!
//! A workspace is no blob: it is changed in place, by another program, and never leaves this host.

use std::io;
use std::path::{Path, PathBuf};

use super::folder::job_folders;
use crate::disk;
use crate::job::JobId;

/// The name of a workspace in the folder of its job.
pub(super) const WORKSPACE: &str = "workspace";

/// The workspace folders of a yard.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceFolders {
    jobs: PathBuf,
}

impl WorkspaceFolders {
    /// The folders below a data directory.
    pub(crate) fn new(data: &Path) -> Self {
        Self { jobs: data.join("jobs") }
    }

    /// Makes the folder for a job's disk if it is missing, and returns its path for the driver.
    pub(crate) async fn make(&self, job: &JobId) -> io::Result<PathBuf> {
        let path = self.path(job);
        disk::blocking(move || disk::make_folder(&path).map(|()| path)).await
    }

    /// Removes the folder. Succeeds if it is missing. The machine must be stopped.
    pub(crate) async fn remove(&self, job: &JobId) -> io::Result<()> {
        let path = self.path(job);
        disk::blocking(move || disk::remove_tree(&path)).await
    }

    /// The jobs that have a folder.
    pub(crate) async fn jobs(&self) -> io::Result<Vec<JobId>> {
        let jobs = self.jobs.clone();
        disk::blocking(move || {
            let mut found = job_folders(&jobs)?;
            found.retain(|job| jobs.join(job.as_str()).join(WORKSPACE).exists());
            Ok(found)
        })
        .await
    }

    fn path(&self, job: &JobId) -> PathBuf {
        self.jobs.join(job.as_str()).join(WORKSPACE)
    }
}
