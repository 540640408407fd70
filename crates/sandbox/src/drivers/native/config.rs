//! The settings of the driver.

use std::path::PathBuf;
use std::sync::Arc;

use super::launcher::step::NativeStep;
use super::launcher_program::LauncherProgram;
use crate::driver::LocalImages;
use crate::guest_programs::GuestPrograms;

/// Settings of the driver.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The yard's data directory: markers and blank disks. The same file system as the workspaces makes starts quick.
    pub data: PathBuf,
    /// Directory that holds the link directories. Its path may have any length; it need not survive a reboot.
    pub run: PathBuf,
    /// Program that runs as the launcher.
    pub launcher: LauncherProgram,
    /// Number of helpers that wait in control groups for the next starts.
    pub parked_slots: usize,
    /// Blank disks kept in stock.
    pub blank_disks: usize,
    /// Size of a blank disk in stock, in MiB: the default disk of a sandbox.
    pub blank_disk_mib: u64,
    /// Finds the trees of the images on this host.
    pub images: Arc<dyn LocalImages>,
    /// Programs that run inside the sandboxes.
    pub programs: GuestPrograms,
    /// Step at which every start fails; for tests.
    pub fail_at: Option<NativeStep>,
}
