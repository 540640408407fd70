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
    /// First of its ids on the host.
    pub(super) id_base: u32,
    /// The caller's directory with its disk.
    pub(super) workspace: PathBuf,
    /// Its first process; missing until that runs. Judged without the engine, which may be away.
    pub(super) process: Option<ProcessIdentity>,
}

impl Marker for Record {
    fn id(&self) -> &SandboxId {
        &self.id
    }
}

impl Record {
    /// Whether its machine runs.
    pub(super) fn is_alive(&self) -> bool {
        self.process.as_ref().is_some_and(ProcessIdentity::is_alive)
    }
}
