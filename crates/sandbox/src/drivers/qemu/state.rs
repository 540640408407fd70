//! State that the calls of the driver share.

use std::sync::{Arc, OnceLock};

use super::config::QemuConfig;
use super::host::{self, Acceleration, Accelerator, ChosenAccelerator};
use super::links;
use crate::host::console::Consoles;
use crate::host::sandboxes::Sandboxes;
use crate::host::storage::disk::Disks;
use crate::image::vm::VmImages;

/// The driver. Dropping it leaves machines running.
#[derive(Debug)]
pub struct QemuDriver {
    pub(super) state: Arc<QemuState>,
    pub(super) acceleration: Acceleration,
}

/// State of the driver that all its calls share.
#[derive(Debug)]
pub(super) struct QemuState {
    pub(super) config: QemuConfig,
    pub(super) program: host::QemuProgram,
    pub(super) clock_khz: u64,
    pub(super) sandboxes: Sandboxes,
    pub(super) disks: Disks,
    pub(super) images: VmImages,
    pub(super) links: links::QemuLinks,
    pub(super) consoles: Consoles,
    pub(super) chosen: tokio::sync::Mutex<Option<ChosenAccelerator>>,
    pub(super) runtime: OnceLock<Accelerator>,
}
