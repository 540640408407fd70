//! The settings of the driver.

use std::path::PathBuf;
use std::sync::Arc;

use super::step::DockerStep;
use crate::driver::LocalImages;

/// Settings of the driver.
#[derive(Debug, Clone)]
pub struct DockerConfig {
    /// The driver's own data directory.
    pub data: PathBuf,
    /// Where link directories and boot documents are made; need not survive a reboot.
    pub run: PathBuf,
    /// The engine's socket.
    pub socket: PathBuf,
    /// The default disk of a sandbox.
    pub disk_mib: u64,
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
    /// Whether an engine whose runtime has known holes may be used by jobs that name the driver.
    pub allow_outdated_runtime: bool,
    /// Fails every start at this step; for tests.
    pub fail_at: Option<DockerStep>,
}
