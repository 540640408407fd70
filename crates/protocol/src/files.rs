//! Files under `/workspace`. Paths are relative, with `/` between components; empty means the workspace itself.

use serde::{Deserialize, Serialize};

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = EntryKindView))]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, never followed out of the workspace.
    Symlink,
    /// A socket, pipe or device; never exported.
    Other,
}

/// Metadata of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStat {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// Size in bytes, as the file system reports it.
    pub size: u64,
    /// Permission bits, without those of the file type.
    pub mode: u32,
    /// Last change, in milliseconds since the epoch.
    pub modified_ms: i64,
    /// Where a symbolic link points.
    pub target: Option<String>,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// Name within its directory; bytes that are not UTF-8 are percent-encoded.
    pub name: String,
    /// Metadata of the entry.
    #[serde(flatten)]
    pub stat: FileStat,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRange {
    /// Offset of the first byte, counting from 0.
    pub start: u64,
    /// Number of bytes; to the end of the file if not given.
    pub length: Option<u64>,
}

/// One replacement in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// Text that must occur exactly once.
    pub old: String,
    /// The text that takes the place of `old`.
    pub new: String,
}

/// One line that matched a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchHit {
    /// File, relative to the workspace.
    pub path: String,
    /// Line number from 1; 0 if the name matched rather than the content.
    pub line: u64,
    /// The line, cut to 400 bytes.
    pub text: String,
}

/// Announces one entry of an export. A file is followed by data frames of exactly `size` bytes in all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryHeader {
    /// A file, directory or symbolic link.
    Entry {
        /// Path relative to the exported directory; bytes that are not UTF-8 are percent-encoded.
        path: String,
        /// The kind of the entry; never `Other`.
        kind: EntryKind,
        /// Permission bits, without set-user-id and sticky bits.
        mode: u32,
        /// Exact number of bytes that follow for a file, 0 otherwise. A file that shrinks meanwhile is padded with zeros.
        size: u64,
        /// Last change, in milliseconds since the epoch.
        modified_ms: i64,
        /// Where a symbolic link points.
        target: Option<String>,
    },
    /// The last message of an export.
    End {
        /// Number of entries that were sent.
        entries: u64,
        /// Paths that could not be read, each with the reason; at most 100.
        skipped: Vec<String>,
    },
}
