//! The settings of the driver.

use std::path::PathBuf;
use std::sync::Arc;

use super::step::OciStep;
use crate::driver::LocalImages;

/// Settings of the driver.
#[derive(Debug, Clone)]
pub struct OciConfig {
    /// The driver's own directory: markers, programs, the runtime's state.
    pub data: PathBuf,
    /// Where link directories are made; any length, need not survive a reboot.
    pub run: PathBuf,
    /// Name or path of the runtime; the first that is installed if there is none.
    pub runtime: Option<String>,
    /// Whether a runtime with known holes may be used.
    pub allow_outdated_runtime: bool,
    /// The default disk of a sandbox.
    pub disk_mib: u64,
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
    /// Fails every start at this step; for tests.
    pub fail_at: Option<OciStep>,
}
