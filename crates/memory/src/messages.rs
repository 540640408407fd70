//! Messages between the host and the reader, which holds the index of one job's memory.
//!
//! A message is one line of JSON. The bytes of a text follow the line that announces them. Both sides run the same build, so the
//! messages have no version. What the reader answers is a claim: whoever cites compares the bytes with the digest.

use serde::{Deserialize, Serialize};

use crate::scope::RecallScope;
use crate::source::{ContentDigest, PassagePlace, SourceId, SourceOrigin};

/// Longest line of a message; a question or the places of a few dozen passages.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// A request of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum MemoryRequest {
    /// Adds a text, whose bytes follow. Has no reply.
    Add(TextAnnouncement),
    /// Looks for passages. Answered by `Found`.
    Find(MemoryQuestion),
    /// Writes the index to its folder. Answered by `Saved`.
    Save,
}

/// The line before the bytes of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextAnnouncement {
    /// The name under which the host keeps it.
    pub id: SourceId,
    /// Where it came from.
    pub origin: SourceOrigin,
    /// Path or title.
    pub path: String,
    /// When it was stored, in milliseconds since 1970.
    pub at_ms: u64,
    /// Bytes that follow.
    pub bytes: u64,
}

/// A question to the memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryQuestion {
    /// The question, in words or as an identifier or error message.
    pub text: String,
    /// Passages wanted.
    pub count: usize,
    /// Which sources may answer.
    pub scope: RecallScope,
}

/// A reply of the reader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum MemoryReply {
    /// The first message: what the index has from before. Everything after these must be added.
    Opened {
        /// The last source of each kind, see [`KnownSources`].
        known: KnownSources,
        /// Parts of the index that were damaged; the whole index is empty then.
        dropped: Vec<String>,
    },
    /// Passages, best first.
    Found {
        /// They may be more than were asked for, in case that some can't be cited.
        passages: Vec<FoundPassage>,
    },
    /// The index is in its folder.
    Saved {
        /// Its sizes.
        statistics: IndexStatistics,
    },
    /// The request could not be carried out.
    Failed {
        /// Why, for the log.
        message: String,
    },
}

/// Sources are added in order, so the last ones tell what the index has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownSources {
    /// Number of the last journal entry; 0 without any.
    pub entries: u64,
    /// Number of the last kept text; 0 without any.
    pub texts: u64,
}

/// Parts of an entry from this number on are kept texts: this plus the number of the text. Smaller ones are of the entry itself.
pub const FIRST_TEXT_PART: u32 = 1 << 20;

impl KnownSources {
    /// Takes a source into account.
    pub fn add(&mut self, id: SourceId) {
        match text_number(id) {
            Some(number) => self.texts = self.texts.max(number),
            None => self.entries = self.entries.max(id.number),
        }
    }
}

/// The number of a kept text; `None` for a part of a journal entry.
pub fn text_number(id: SourceId) -> Option<u64> {
    id.part.checked_sub(FIRST_TEXT_PART).map(u64::from)
}

/// The name of a kept text that belongs to a journal entry, or to none with `entry` 0.
pub fn text_id(entry: u64, number: u64) -> Option<SourceId> {
    let part = u32::try_from(number).ok()?.checked_add(FIRST_TEXT_PART)?;
    Some(SourceId { number: entry, part })
}

/// A passage that the index knows, without its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundPassage {
    /// Name of the definition, or headings above the passage.
    pub name: String,
    /// Digest of its bytes.
    pub digest: ContentDigest,
    /// How many bytes it has.
    pub bytes: u32,
    /// How well it fits, for comparison with other passages of the same answer.
    pub score: f32,
    /// In how many places the same text was seen.
    pub seen: usize,
    /// Some of these places, newest first; the last one is where it was seen first.
    pub places: Vec<PassagePlace>,
}

/// Sizes of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexStatistics {
    /// Sources that are not forgotten.
    pub sources: u64,
    /// Distinct chunks.
    pub chunks: u64,
    /// Chunks that were seen again.
    pub repeats: u64,
    /// Bytes of text that the chunks were made of.
    pub text_bytes: u64,
    /// Bytes of the sealed files.
    pub file_bytes: u64,
    /// Sealed files.
    pub segments: u64,
}

/// What a synchronisation with a folder found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderSync {
    /// Text files in the folder.
    pub files: u64,
    /// Files that were added or had changed.
    pub added: u64,
    /// Files that are too large, binary or unreadable.
    pub skipped: u64,
    /// Bytes of the text files.
    pub bytes: u64,
    /// Estimated tokens of the files that were added.
    pub tokens: u64,
}

/// What the reader prints about the memory of a folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FolderMemory {
    /// What was read; `None` if the folder was not looked through.
    pub sync: Option<FolderSync>,
    /// Sizes of the index.
    pub statistics: IndexStatistics,
    /// Parts of the index that were damaged and made again.
    pub dropped: Vec<String>,
    /// Passages, best first.
    pub passages: Vec<FolderPassage>,
    /// Passages that were left out because their file has changed meanwhile.
    pub unverified: usize,
}

/// A passage of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FolderPassage {
    /// The passage.
    pub text: String,
    /// Name of the definition, or headings above the passage.
    pub name: String,
    /// How well it fits.
    pub score: f32,
    /// The file, relative to the folder.
    pub path: String,
    /// First and last line, counting from 1.
    pub lines: (u32, u32),
    /// Digest of its bytes.
    pub digest: ContentDigest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_texts_and_entries_are_told_apart() {
        let mut known = KnownSources::default();
        known.add(SourceId { number: 7, part: 3 });
        known.add(text_id(9, 12).unwrap());
        assert_eq!(known, KnownSources { entries: 7, texts: 12 });
        assert_eq!(text_number(SourceId { number: 7, part: 3 }), None);
        assert_eq!(text_id(0, u64::from(u32::MAX)), None);
    }
}
