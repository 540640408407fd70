//! What this driver writes in a sandbox's marker.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::driver::SandboxId;
use crate::parts::liveness::ProcessIdentity;
use crate::parts::records::Marker;

/// What must be known to find, judge and remove a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Its name, which is its container's too.
    pub(super) id: SandboxId,
    /// First of its ids on the host, if it has its own.
    pub(super) id_base: Option<u32>,
    /// Name of its control groups.
    pub(super) groups: String,
    /// The caller's directory with its disk.
    pub(super) workspace: PathBuf,
    /// The runtime that made it, which must be the one that removes it.
    pub(super) runtime: PathBuf,
    /// Its first process; missing until that runs.
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
