//! The settings of the driver.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::LocalImages;
use crate::guest_programs::GuestPrograms;

/// Settings of the driver.
#[derive(Debug, Clone)]
pub struct FirecrackerConfig {
    /// Directory of this driver in the yard, for markers and jails.
    pub data: PathBuf,
    /// Directory of the image cache, which also holds kernels.
    pub cache: PathBuf,
    /// Path of Firecracker's program, if it is installed.
    pub firecracker: Option<PathBuf>,
    /// Path of the jailer of the same release.
    pub jailer: Option<PathBuf>,
    /// Path of the KVM device.
    pub kvm: PathBuf,
    /// Time that a machine may take to boot, in addition to the time of any sandbox: a fraction of a second
    /// on a real processor, a minute where that is emulated.
    pub boot_time: Duration,
    /// Finds the trees of the images on this host.
    pub images: Arc<dyn LocalImages>,
    /// Programs that run inside the sandboxes.
    pub programs: GuestPrograms,
}
