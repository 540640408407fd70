//! The settings of the driver.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::host::Acceleration;
use super::step::QemuStep;
use crate::driver::LocalImages;
use crate::guest_programs::GuestPrograms;

/// Settings of the driver.
#[derive(Debug, Clone)]
pub struct QemuConfig {
    /// Directory of this driver, for markers and sockets.
    pub data: PathBuf,
    /// Directory of the image cache, which also holds kernels.
    pub cache: PathBuf,
    /// Path of QEMU's program. `None` looks for it in the usual directories.
    pub program: Option<PathBuf>,
    /// The operator's choice of accelerator.
    pub acceleration: Acceleration,
    /// Time that a machine may take to boot, in addition to the time of any sandbox. An emulated one needs 3 s on an idle host.
    pub boot_time: Duration,
    /// Finds the trees of the images on this host.
    pub images: Arc<dyn LocalImages>,
    /// Programs that run inside the sandboxes.
    pub programs: GuestPrograms,
    /// Step at which every start fails; for tests.
    pub fail_at: Option<QemuStep>,
}
