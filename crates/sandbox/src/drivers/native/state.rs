//! State that the calls of the driver share.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::config::NativeConfig;
use super::{privileges, slots, started, workspaces};
use crate::host::sandboxes::Sandboxes;
use crate::host::sandboxes::links::SocketLinks;

/// The driver. Dropping it ends the launcher and parked slots and leaves sandboxes running.
#[derive(Debug)]
pub struct NativeDriver {
    pub(super) state: Arc<NativeState>,
    pub(super) restocking: AbortHandle,
}

/// State of the driver that all its calls share.
#[derive(Debug)]
pub(super) struct NativeState {
    pub(super) config: NativeConfig,
    /// Directory with the guest's programs.
    pub(super) programs: PathBuf,
    pub(super) sandboxes: Sandboxes,
    pub(super) privileges: privileges::Privileges,
    pub(super) workspaces: workspaces::Workspaces,
    pub(super) links: SocketLinks,
    pub(super) slots: slots::LaunchSlots,
    pub(super) started: started::StartedSandboxes,
    pub(super) wanting: Notify,
}
