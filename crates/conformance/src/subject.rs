//! The driver under test, and sandboxes for it.

use std::path::PathBuf;
use std::sync::Arc;

use sandyard_sandbox::driver::{Driver, Limits, LocalImages, SandboxId, SandboxSpec};

use crate::images::{TestImages, unread_image};
use crate::session::SuiteError;

/// Lifetime of a sandbox, after which one that a failed test left ends by itself. A machine within an
/// emulated machine takes minutes for a part of the suite.
const LIFETIME_S: u64 = 1_200;

/// Opens the driver again, as a restarted server would.
pub type ReopenDriver = Box<dyn Fn() -> Arc<dyn Driver> + Send + Sync>;

/// A driver under test.
pub struct DriverSubject {
    /// Opens the driver. Each call stands for a new server on the same yard.
    pub open: ReopenDriver,
    /// Images of the driver. Sandboxes get the first one.
    pub images: TestImages,
    /// Directory in which workspaces are made.
    pub workspaces: PathBuf,
    /// True if the disks of sandboxes are in memory and charged to it.
    pub disk_in_memory: bool,
    /// True if each sandbox has a kernel of its own, to which its first users and namespaces belong.
    pub own_kernel: bool,
    /// True if the device nodes are the host's own, because the driver's user can't make any.
    pub host_devices: bool,
}

impl DriverSubject {
    /// Creates a specification with its own workspace directory. `name` must be new.
    pub fn spec(&self, name: &str, limits: Limits) -> Result<SandboxSpec, SuiteError> {
        let workspace = self.workspaces.join(name);
        std::fs::create_dir_all(&workspace).map_err(SuiteError::Workspace)?;
        let id = SandboxId::parse(name).ok_or_else(|| SuiteError::Name(name.to_owned()))?;
        Ok(SandboxSpec {
            id,
            image: self.images.probe_image().unwrap_or_else(unread_image),
            workspace,
            limits,
            lifetime_s: LIFETIME_S,
            secret: sandyard_protocol::Secret::new([7; 32]),
        })
    }
}
