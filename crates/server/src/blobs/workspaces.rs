//! The folders in which drivers on this host keep the disks of sandboxes: `jobs/<id>/workspace`.
//!
//! A workspace is no blob: it is changed in place, by another program, and never leaves this host.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::folder::{WORKSPACE, job_folders};
use crate::disk;
use crate::job::JobId;

/// Another process that owns the workspaces, because this one may not reach them. It makes each when a sandbox on it starts.
#[async_trait]
pub trait WorkspaceOwner: fmt::Debug + Send + Sync + 'static {
    /// Removes the workspace of a job. Succeeds if there is none. The machine is stopped.
    async fn remove(&self, job: &JobId) -> io::Result<()>;
}

/// The workspace folders of a yard.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceFolders {
    jobs: PathBuf,
    /// The process that makes and removes them; this one if there is none.
    owner: Option<Arc<dyn WorkspaceOwner>>,
}

impl WorkspaceFolders {
    /// The folders below a data directory.
    pub(crate) fn new(data: &Path, owner: Option<Arc<dyn WorkspaceOwner>>) -> Self {
        Self { jobs: data.join("jobs"), owner }
    }

    /// Makes the folder for a job's disk if it is missing and this process owns it, and returns its path for the driver.
    pub(crate) async fn make(&self, job: &JobId) -> io::Result<PathBuf> {
        let path = self.path(job);
        if self.owner.is_some() {
            return Ok(path);
        }
        disk::blocking(move || disk::make_folder(&path).map(|()| path)).await
    }

    /// Removes the folder. Succeeds if it is missing. The machine must be stopped.
    pub(crate) async fn remove(&self, job: &JobId) -> io::Result<()> {
        if let Some(owner) = &self.owner {
            return owner.remove(job).await;
        }
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

    /// Returns the path of a job's folder, which may be missing.
    pub(crate) fn path(&self, job: &JobId) -> PathBuf {
        self.jobs.join(job.as_str()).join(WORKSPACE)
    }
}
