//! What this driver writes in a sandbox's marker.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::driver::SandboxId;
use crate::parts::liveness::ProcessIdentity;
use crate::parts::records::Marker;

/// What must be known to find, judge and remove a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Its name.
    pub(super) id: SandboxId,
    /// Name of its jail and of its control groups: fresh for each start.
    pub(super) name: String,
    /// Whom Firecracker runs as.
    pub(super) user: u32,
    /// The caller's directory with its disk.
    pub(super) workspace: PathBuf,
    /// Firecracker, once its machine has booted. One that has none may still have processes, in its control groups.
    pub(super) process: Option<ProcessIdentity>,
}

impl Record {
    /// Whether its machine runs.
    pub(super) fn is_alive(&self) -> bool {
        self.process.as_ref().is_some_and(ProcessIdentity::is_alive)
    }
}

impl Marker for Record {
    fn id(&self) -> &SandboxId {
        &self.id
    }
}
