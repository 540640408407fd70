//! The record of a process on disk, by which the next keeper knows it.

use std::path::Path;

use sandyard_protocol::Exit;
use serde::{Deserialize, Serialize};

use super::supervise::ProcessLimits;
use crate::keeper::spool::{self, SpoolError};

const FILE: &str = "process.json";

/// The part of a process that is kept on disk, beside its output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ProcessRecord {
    /// Number of the keeper that started it, and its number among that keeper's processes.
    pub(super) number: (u64, u64),
    pub(super) argv: Vec<String>,
    pub(super) pid: i32,
    pub(super) deadline_ms: Option<u64>,
    pub(super) idle_timeout_ms: Option<u64>,
    pub(super) ends_with_stream: bool,
    #[serde(default)]
    pub(super) linger_ms: Option<u64>,
    #[serde(default)]
    pub(super) needs_whole_input: bool,
    pub(super) exit: Option<Exit>,
}

impl ProcessRecord {
    pub(super) fn limits(&self) -> ProcessLimits {
        ProcessLimits {
            deadline_ms: self.deadline_ms,
            idle_timeout_ms: self.idle_timeout_ms,
            idle_from_ms: 0,
        }
    }

    /// Loads the record of a process, if there is one.
    pub(super) fn load(directory: &Path) -> Result<Option<Self>, SpoolError> {
        spool::load(&directory.join(FILE))
    }

    pub(super) fn store(&self, directory: &Path) -> Result<(), SpoolError> {
        spool::store(&directory.join(FILE), self)
    }
}
