//! State that the calls of the driver share.

use std::path::PathBuf;
use std::sync::Arc;

use super::config::OciConfig;
use super::runtime::Runtime;
use super::stage::NodeMaker;
use crate::host::console::Consoles;
use crate::host::sandboxes::Sandboxes;
use crate::host::sandboxes::links::SocketLinks;
use crate::host::sandboxes::locks::SandboxLocks;
use crate::host::storage::disk::Disks;

/// The driver. Dropping it leaves sandboxes running.
#[derive(Debug)]
pub struct OciDriver {
    pub(super) state: Arc<OciState>,
}

/// State of the driver that all its calls share.
#[derive(Debug)]
pub(super) struct OciState {
    pub(super) config: OciConfig,
    pub(super) runtime: Runtime,
    pub(super) sandboxes: Sandboxes,
    pub(super) links: SocketLinks,
    pub(super) disks: Disks,
    /// Directory with the guest's programs.
    pub(super) programs: PathBuf,
    /// Maker of the containers' device nodes.
    pub(super) nodes: NodeMaker,
    pub(super) started: Consoles,
    pub(super) locks: SandboxLocks,
}

impl OciState {
    /// Returns the runtime's state directory.
    pub(super) fn state(&self) -> PathBuf {
        self.config.data.join("state")
    }
}
