//! What is written down of each machine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::driver::SandboxId;
use crate::parts::liveness::ProcessIdentity;
use crate::parts::records::Marker;

/// What must be known to find, judge and remove a machine. Its sockets lie beside it, its control groups have its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Its name.
    pub(super) id: SandboxId,
    /// First of the host's user ids that are its own.
    pub(super) id_base: u32,
    /// The caller's directory with its disk.
    pub(super) workspace: PathBuf,
    /// QEMU; missing until that runs.
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
