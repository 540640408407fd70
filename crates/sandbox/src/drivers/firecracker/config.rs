//! The settings of the driver.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::LocalImages;

/// Settings of the driver.
#[derive(Debug, Clone)]
pub struct FirecrackerConfig {
    /// A directory of this driver's own in the yard: markers and jails.
    pub data: PathBuf,
    /// The cache of images, with kernels.
    pub cache: PathBuf,
    /// Firecracker's program, if there is one.
    pub firecracker: Option<PathBuf>,
    /// Its jailer, of the same release.
    pub jailer: Option<PathBuf>,
    /// The device of KVM.
    pub kvm: PathBuf,
    /// Time that a machine may take to boot, in addition to the time of any sandbox: a fraction of a second where the processor
    /// does it, a minute where another machine's software does.
    pub boot_time: Duration,
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
}
