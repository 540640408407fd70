//! State that the calls of the driver share.

use std::sync::Arc;

use super::config::FirecrackerConfig;
use super::jail::{Jail, Jails};
use super::links::FirecrackerLinks;
use super::programs::FirecrackerPrograms;
use super::timer::Timers;
use crate::host::console::Consoles;
use crate::host::sandboxes::Sandboxes;
use crate::host::sandboxes::records::SandboxRecord;
use crate::host::storage::disk::Disks;
use crate::image::vm::VmImages;

/// The driver. Dropping it leaves machines running.
#[derive(Debug)]
pub struct FirecrackerDriver {
    pub(super) state: Arc<FirecrackerState>,
}

/// State of the driver that all its calls share.
#[derive(Debug)]
pub(super) struct FirecrackerState {
    pub(super) config: FirecrackerConfig,
    pub(super) programs: FirecrackerPrograms,
    pub(super) sandboxes: Sandboxes,
    pub(super) disks: Disks,
    pub(super) images: VmImages,
    pub(super) jails: Jails,
    pub(super) links: FirecrackerLinks,
    pub(super) consoles: Consoles,
    pub(super) timers: Timers,
}

impl FirecrackerState {
    /// Returns the jail of a machine, which has the name of its control groups.
    pub(super) fn jail(&self, record: &SandboxRecord) -> Jail {
        self.jails.jail(record.groups_name(), &record.id)
    }

    /// Returns the means of isolation, for the status.
    pub(super) fn runtime(&self) -> String {
        format!("firecracker {}+jailer", self.programs.version)
    }
}
