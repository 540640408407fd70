//! Files of a workspace as clients see them.

use sandyard_protocol::EntryKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// Facts about one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileStatView {
    /// The path, relative to the workspace.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits in octal.
    #[schema(example = "0644")]
    pub mode: String,
    /// Last change.
    pub modified_at: Timestamp,
    /// Where a symbolic link points.
    pub target: Option<String>,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileEntryView {
    /// Name within its folder; bytes that are not UTF-8 are percent-encoded.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits in octal.
    pub mode: String,
    /// Last change.
    pub modified_at: Timestamp,
    /// Where a symbolic link points.
    pub target: Option<String>,
}

/// A page of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListingView {
    /// The folder, relative to the workspace; empty for the workspace itself.
    pub path: String,
    /// Sorted by name.
    pub entries: Vec<FileEntryView>,
    /// Pass it as `?after=` for the next page; `null` on the last.
    pub next: Option<String>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchView {
    /// In path order.
    pub hits: Vec<SearchHitView>,
    /// Whether there was more.
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
