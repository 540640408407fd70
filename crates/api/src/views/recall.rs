//! What is recalled of a job.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::timestamp::Timestamp;

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecallView {
    /// Best first.
    pub passages: Vec<PassageView>,
    /// Passages that were left out because their text is lost or changed.
    pub unverified: usize,
    /// Parts of the index that were damaged, and made again for this answer.
    pub rebuilt: usize,
}

/// A passage, byte for byte as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PassageView {
    /// The passage. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Name of the definition, or headings above the passage.
    pub name: String,
    /// How well it fits, for comparison with other passages of the same answer.
    pub score: f32,
    /// The first 128 bits of the SHA-256 of the passage, in hexadecimal.
    pub digest: String,
    /// Bytes of the passage.
    pub bytes: u64,
    /// In how many places the same text was seen.
    pub seen: usize,
    /// The newest of these places.
    pub source: PassageSourceView,
    /// The first of these places, if it is another one.
    pub first: Option<PassageSourceView>,
}

/// Where a passage stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PassageSourceView {
    /// Number of the journal entry that it came with; `null` for a job without a journal.
    pub entry: Option<u64>,
    /// Which text of the entry, counting from 0; `null` for a text that is kept behind it.
    pub part: Option<u32>,
    /// Number of the text among those that are kept behind the journal; `null` for a text of the entry itself.
    pub text: Option<u64>,
    /// `person`, `model`, `call`, `result`, `file`, `cell` or `note`.
    pub origin: String,
    /// Path of a file, or the name of a tool, of a language, of a kind of entry.
    pub path: String,
    /// First and last line in the text, counting from 1.
    pub lines: [u32; 2],
    /// First byte in the text.
    pub start: u64,
    /// When the text was stored.
    pub at: Timestamp,
}
