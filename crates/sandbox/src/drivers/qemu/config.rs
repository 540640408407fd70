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
    /// The operator's choice of accelerator.
    pub acceleration: Acceleration,
    /// Time that a machine may take to boot, in addition to the time of any sandbox. An emulated one needs 3 s on an idle host.
    pub boot_time: Duration,
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
    /// Fails every start at this step; for tests.
    pub fail_at: Option<QemuStep>,
}
