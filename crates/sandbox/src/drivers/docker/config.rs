//! The settings of the driver.

use std::path::PathBuf;
use std::sync::Arc;

use super::step::DockerStep;
use crate::driver::LocalImages;
use crate::guest_programs::GuestPrograms;

/// Settings of the driver.
#[derive(Debug, Clone)]
pub struct DockerConfig {
    /// The driver's own data directory.
    pub data: PathBuf,
    /// Directory for link directories and boot documents; need not survive a reboot.
    pub run: PathBuf,
    /// Unix socket on which the engine listens.
    pub socket: PathBuf,
    /// Default size of a sandbox's disk, in MiB.
    pub disk_mib: u64,
    /// Finds the trees of the images on this host.
    pub images: Arc<dyn LocalImages>,
    /// Programs that run inside the sandboxes.
    pub programs: GuestPrograms,
    /// True if jobs that name the driver may use an engine whose runtime has known holes.
    pub allow_outdated_runtime: bool,
    /// Step at which every start fails; for tests.
    pub fail_at: Option<DockerStep>,
}
