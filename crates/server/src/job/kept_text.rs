//! Texts that are kept behind a job's journal: whole results, versions of files, what calls of the API printed.
//!
//! A text is named by its content. Of one that a job has already, only another mention is stored.

use bytes::Bytes;
use sandyard_memory::{ContentDigest, SourceOrigin};

/// A text to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewText {
    pub(crate) origin: SourceOrigin,
    /// Path of a file, or the name of a tool or language.
    pub(crate) path: String,
    pub(crate) digest: ContentDigest,
    /// Bytes of the text.
    pub(crate) bytes: u64,
    pub(crate) body: NewTextBody,
}

/// Where the bytes of a text to be kept are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NewTextBody {
    /// They are stored in the row, packed.
    Inline(Bytes),
    /// A blob has them already; its length.
    Blob(u64),
    /// The job has the same text from before.
    Known,
}

impl NewTextBody {
    /// Bytes that are stored for it.
    pub(crate) fn stored_bytes(&self) -> u64 {
        match self {
            Self::Inline(packed) => packed.len() as u64,
            Self::Blob(bytes) => *bytes,
            Self::Known => 0,
        }
    }
}

/// A text that is kept, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextRow {
    /// Order within the job, from 1.
    pub(crate) number: u64,
    /// The journal entry that it came with; 0 for a job without a journal.
    pub(crate) entry: u64,
    pub(crate) origin: SourceOrigin,
    pub(crate) path: String,
    pub(crate) at_ms: i64,
    pub(crate) digest: ContentDigest,
    pub(crate) bytes: u64,
}

/// Where the bytes of a kept text are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoredText {
    /// In the row, packed.
    Inline(Bytes),
    /// In the blob of that digest.
    Blob,
}
