//! The settings of the driver.

use std::path::PathBuf;
use std::sync::Arc;

use super::launcher::step::NativeStep;
use super::launcher_program::LauncherProgram;
use crate::driver::LocalImages;

/// Settings of the driver.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The yard's data directory: markers and blank disks. The same file system as the workspaces makes starts quick.
    pub data: PathBuf,
    /// Where link directories are made; any length, need not survive a reboot.
    pub run: PathBuf,
    /// How to run the launcher.
    pub launcher: LauncherProgram,
    /// Number of slots kept waiting.
    pub parked_slots: usize,
    /// Blank disks kept in stock.
    pub blank_disks: usize,
    /// Their size: the default disk of a sandbox.
    pub blank_disk_mib: u64,
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
    /// Fails every start at this step; for tests.
    pub fail_at: Option<NativeStep>,
}
