//! What has changed in the workspace since the last look, as a worker with the job's rights sees it.

use serde::{Deserialize, Serialize};

/// The difference to the look before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceChanges {
    /// New files, links and directories, the first of them.
    pub added: Vec<ChangedPath>,
    /// Files and links that are others now, the first of them.
    pub changed: Vec<ChangedPath>,
    /// Paths that are gone, the first of them.
    pub removed: Vec<String>,
    /// How many there are in all.
    pub added_count: u64,
    /// How many there are in all.
    pub changed_count: u64,
    /// How many there are in all.
    pub removed_count: u64,
    /// Entries that were looked at.
    pub entries: u64,
    /// Whether everything was looked at; a tree that is too large is looked at from the top, as far as time allows.
    pub complete: bool,
    /// Whether nothing was known of the workspace before, so that everything in it is new.
    pub first: bool,
}

/// A path that is new or another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedPath {
    /// Relative to the workspace.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal of a regular file that is not too large.
    pub sha256: Option<String>,
}

impl WorkspaceChanges {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.added_count == 0 && self.changed_count == 0 && self.removed_count == 0
    }
}
