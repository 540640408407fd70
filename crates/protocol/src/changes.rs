//! The difference between two scans of the workspace, as a process with the job's rights sees it.

use serde::{Deserialize, Serialize};

/// The difference to the previous scan. The lists hold the first paths of each kind, the counts cover all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceChanges {
    /// New files, links and directories.
    pub added: Vec<ChangedPath>,
    /// Files and links with other contents.
    pub changed: Vec<ChangedPath>,
    /// Paths that no longer exist.
    pub removed: Vec<String>,
    /// Number of new paths.
    pub added_count: u64,
    /// Number of changed paths.
    pub changed_count: u64,
    /// Number of removed paths.
    pub removed_count: u64,
    /// Number of scanned entries.
    pub entries: u64,
    /// True if the whole tree was scanned. A tree that is too large is scanned from the top, as far as time allows.
    pub complete: bool,
    /// True if there was no previous scan, so that everything is new.
    pub first: bool,
}

/// A new or changed path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedPath {
    /// Relative to the workspace.
    pub path: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal; only of regular files that are not too large.
    pub sha256: Option<String>,
}

impl WorkspaceChanges {
    /// True if nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added_count == 0 && self.changed_count == 0 && self.removed_count == 0
    }
}
