//! The settings of the driver.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::host::Acceleration;
use super::step::QemuStep;
use crate::driver::LocalImages;

/// Settings of the driver.
#[derive(Debug, Clone)]
pub struct QemuConfig {
    /// A directory of the driver's own, for markers and sockets.
    pub data: PathBuf,
    /// The cache of images, with kernels.
    pub cache: PathBuf,
    /// The program; none looks for it where programs are.
    pub program: Option<PathBuf>,
    /// What shall run the guest's code.
    pub acceleration: Acceleration,
    /// How long a machine may take to boot beyond what any sandbox may: an emulated one needs 3 s on an idle host.
    pub boot_time: Duration,
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
    /// Fails every start at this step; for tests.
    pub fail_at: Option<QemuStep>,
}
