//! State that the calls of the driver share.

use std::path::PathBuf;
use std::sync::Arc;

use super::config::DockerConfig;
use super::engine::Engine;
use super::stage::DiskStage;
use crate::driver::SandboxId;
use crate::host::sandboxes::Sandboxes;
use crate::host::sandboxes::links::SocketLinks;
use crate::host::sandboxes::locks::SandboxLocks;
use crate::host::storage::disk::Disks;

/// The driver. Dropping it leaves sandboxes running.
#[derive(Debug)]
pub struct DockerDriver {
    pub(super) state: Arc<DockerState>,
}

/// State of the driver that all its calls share.
#[derive(Debug)]
pub(super) struct DockerState {
    pub(super) config: DockerConfig,
    pub(super) engine: Engine,
    pub(super) sandboxes: Sandboxes,
    pub(super) disks: Disks,
    pub(super) stage: DiskStage,
    pub(super) links: SocketLinks,
    /// Directory on the host with the guest's programs.
    pub(super) programs: PathBuf,
    pub(super) locks: SandboxLocks,
}

impl DockerState {
    /// Returns init's directory on the host.
    pub(super) fn boot_directory(&self, id: &SandboxId) -> PathBuf {
        self.config.run.join("boot").join(id.as_str())
    }
}
