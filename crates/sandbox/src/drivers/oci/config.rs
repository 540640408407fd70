//! The settings of the driver.

use std::path::PathBuf;
use std::sync::Arc;

use super::step::OciStep;
use crate::driver::LocalImages;
use crate::guest_programs::GuestPrograms;

/// Settings of the driver.
#[derive(Debug, Clone)]
pub struct OciConfig {
    /// Directory of this driver: markers, programs, the runtime's state.
    pub data: PathBuf,
    /// Directory that holds the link directories. Its path may have any length; it need not survive a reboot.
    pub run: PathBuf,
    /// Name or path of the runtime. `None` takes the first that is installed.
    pub runtime: Option<String>,
    /// True if a runtime with known holes may be used.
    pub allow_outdated_runtime: bool,
    /// Default size of a sandbox's disk, in MiB.
    pub disk_mib: u64,
    /// Finds the trees of the images on this host.
    pub images: Arc<dyn LocalImages>,
    /// Programs that run inside the sandboxes.
    pub programs: GuestPrograms,
    /// Step at which every start fails; for tests.
    pub fail_at: Option<OciStep>,
}
