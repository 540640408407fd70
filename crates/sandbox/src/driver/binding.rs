//! Late binding: a warm pool starts sandboxes before their jobs are known, and binds them to limits and workspaces afterwards.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::sandbox::Limits;

/// The final properties of a sandbox that was started with provisional ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Binding {
    /// Limits of the job. The disk and file systems in memory keep the size that they got at the start, so `disk_mib` changes
    /// nothing. Limits below the present use may fail, or cost the job processes that the kernel kills for their memory.
    pub limits: Limits,
    /// A workspace to use instead of the one of the start; `None` keeps that.
    pub workspace: Option<PathBuf>,
}

/// Parts of a binding that a driver is able to change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindSupport {
    /// Processors, memory and processes.
    pub limits: bool,
    /// True if the workspace can be replaced.
    pub workspace: bool,
}

/// A part of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindingPart {
    /// Processors, memory and processes.
    Limits,
    /// The directory that holds the sandbox's disk.
    Workspace,
}

impl fmt::Display for BindingPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Limits => "limits",
            Self::Workspace => "a workspace",
        })
    }
}
