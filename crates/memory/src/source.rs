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

    /// The number under which the index stores it.
    pub fn to_byte(self) -> u8 {
        Self::ALL.iter().position(|&origin| origin == self).map_or(0, |place| place as u8)
    }

    /// The origin of a stored number.
    pub fn from_byte(byte: u8) -> Option<Self> {
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

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// A digest that was stored.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
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

impl std::str::FromStr for ContentDigest {
    type Err = MalformedDigest;

    fn from_str(text: &str) -> Result<Self, MalformedDigest> {
        let mut bytes = [0; 16];
        if text.len() != 2 * bytes.len()
            || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Err(MalformedDigest);
        }
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).map_err(|_| MalformedDigest)?;
        }
        Ok(Self(bytes))
    }
}

impl<'de> Deserialize<'de> for ContentDigest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for ContentDigest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The text is not a digest: 32 digits of lower-case hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedDigest;

impl std::fmt::Display for MalformedDigest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("not a digest of 32 hexadecimal digits")
    }
}

impl std::error::Error for MalformedDigest {}

/// A source as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// Where a passage stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassagePlace {
    /// The source.
    pub source: SourceRecord,
    /// First byte of the passage in the source.
    pub start: u64,
    /// First line, counting from 1.
    pub first_line: u32,
    /// Last line.
    pub last_line: u32,
}

/// Reads the text of sources again. The journal, its blobs or a folder implement it.
pub trait SourceReader {
    /// Returns the bytes of a source, or `None` if they are gone or can't be read.
    fn read(&self, source: &SourceRecord) -> Option<Vec<u8>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_as_it_is_written() {
        let digest = ContentDigest::of(b"text");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for wrong in ["", "00", "é", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33), &"é".repeat(16)] {
            assert!(wrong.parse::<ContentDigest>().is_err(), "{wrong}");
        }
    }
}
