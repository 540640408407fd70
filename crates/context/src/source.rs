//! What the memory is made of: sources. A source is one text that is kept elsewhere, in the journal, in its blobs or in a folder,
//! and that never changes under its id. The index refers to sources; it never holds their text.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Names a source for the keeper of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceId {
    /// Number of the journal entry or of the file.
    pub number: u64,
    /// Which text of the entry, counting from 0.
    pub part: u32,
}

/// Where a text came from. Recall can be limited to some of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceOrigin {
    /// The task, and every word of a person.
    Person,
    /// Text of the model.
    Model,
    /// Arguments of a tool call.
    Call,
    /// Result of a tool call.
    Result,
    /// Contents of a file at the time when it was read or written.
    File,
    /// A cell of a notebook or its output.
    Cell,
    /// Words of the loop itself: nudges, summaries, captions of pictures.
    Note,
}

impl SourceOrigin {
    /// All origins, in the order of their stored numbers.
    pub const ALL: [Self; 7] =
        [Self::Person, Self::Model, Self::Call, Self::Result, Self::File, Self::Cell, Self::Note];

    pub(crate) fn to_byte(self) -> u8 {
        Self::ALL.iter().position(|&origin| origin == self).map_or(0, |place| place as u8)
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// A hash of a text: the first 128 bits of SHA-256. Citations are checked with it before they are served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest([u8; 16]);

impl ContentDigest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let hash: [u8; 32] = Sha256::digest(bytes).into();
        let mut short = [0; 16];
        short.copy_from_slice(&hash[..16]);
        Self(short)
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl std::fmt::Display for ContentDigest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl std::fmt::Debug for ContentDigest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for ContentDigest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A source as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceRecord {
    /// The name under which the text is read again.
    pub id: SourceId,
    /// Where the text came from.
    pub origin: SourceOrigin,
    /// Path of a file relative to the folder or the workspace, or a title such as `shell`.
    pub path: String,
    /// When the text was stored, in milliseconds since 1970; 0 if unknown.
    pub at_ms: u64,
    /// Digest of the whole text.
    pub digest: ContentDigest,
    /// Bytes of the whole text.
    pub bytes: u64,
}

/// Reads the text of sources again. The journal, its blobs or a folder implement it.
pub trait SourceReader {
    /// Returns the bytes of a source, or `None` if they are gone or can't be read.
    fn read(&self, source: &SourceRecord) -> Option<Vec<u8>>;
}
