//! Files of a workspace.

use sandyard_protocol::EntryKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// Metadata of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileStatView {
    /// The path, relative to the workspace.
    pub path: String,
    /// Type of the entry.
    pub kind: EntryKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits in octal.
    #[schema(example = "0644")]
    pub mode: String,
    /// Time of the last change.
    pub modified_at: Timestamp,
    /// Target of a symbolic link.
    pub target: Option<String>,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileEntryView {
    /// Name within its folder; bytes that are not UTF-8 are percent-encoded.
    pub name: String,
    /// Type of the entry.
    pub kind: EntryKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits in octal.
    pub mode: String,
    /// Time of the last change.
    pub modified_at: Timestamp,
    /// Target of a symbolic link.
    pub target: Option<String>,
}

/// A page of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListingView {
    /// The folder, relative to the workspace; empty for the workspace itself.
    pub path: String,
    /// Entries, sorted by name.
    pub entries: Vec<FileEntryView>,
    /// Value of `?after=` for the next page; `null` on the last page.
    pub next: Option<String>,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchView {
    /// Hits in the order of their paths.
    pub hits: Vec<SearchHitView>,
    /// True if there are more hits.
    pub truncated: bool,
}

/// One place where a search matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchHitView {
    /// The file, relative to the workspace.
    pub path: String,
    /// Line number from 1; 0 if the name matched.
    pub line: u64,
    /// The line, cut to 400 bytes.
    pub text: String,
}
