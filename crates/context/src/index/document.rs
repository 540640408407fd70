//! A document of the index: one chunk, stored once however often it was seen.

use crate::chunk::ChunkKind;
use crate::codec::{ByteReader, ByteWriter};
use sandyard_memory::ContentDigest;

/// What makes two chunks the same: their text and the path of their source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DocumentKey {
    pub(crate) digest: ContentDigest,
    pub(crate) path_hash: u32,
}

impl DocumentKey {
    pub(crate) fn new(digest: ContentDigest, path: &str) -> Self {
        Self { digest, path_hash: crc32fast::hash(path.as_bytes()) }
    }

    pub(crate) fn write(self, writer: &mut ByteWriter) {
        writer.raw(&self.digest.to_bytes());
        writer.raw(&self.path_hash.to_le_bytes());
    }

    pub(crate) fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        let digest = ContentDigest::from_bytes(reader.array()?);
        Some(Self { digest, path_hash: u32::from_le_bytes(reader.array()?) })
    }
}

/// Where a chunk was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentPlace {
    /// Number of the source in its segment.
    pub(crate) source: u32,
    pub(crate) start: u64,
    pub(crate) first_line: u32,
    pub(crate) last_line: u32,
}

impl DocumentPlace {
    pub(crate) fn write(self, writer: &mut ByteWriter) {
        writer.number(u64::from(self.source));
        writer.number(self.start);
        writer.number(u64::from(self.first_line));
        writer.number(u64::from(self.last_line.saturating_sub(self.first_line)));
    }

    pub(crate) fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        let source = reader.number_u32()?;
        let start = reader.number()?;
        let first_line = reader.number_u32()?;
        let last_line = first_line.checked_add(reader.number_u32()?)?;
        Some(Self { source, start, first_line, last_line })
    }
}

/// A document without its terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentRow {
    pub(crate) key: DocumentKey,
    pub(crate) kind: ChunkKind,
    /// Bytes of the chunk in its source.
    pub(crate) bytes: u32,
    pub(crate) name: String,
    /// Where it was seen first.
    pub(crate) place: DocumentPlace,
}

impl DocumentRow {
    pub(crate) fn write(&self, writer: &mut ByteWriter) {
        self.key.write(writer);
        writer.raw(&[self.kind.to_byte()]);
        writer.number(u64::from(self.bytes));
        writer.text(&self.name);
        self.place.write(writer);
    }

    pub(crate) fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        let key = DocumentKey::read(reader)?;
        let [kind] = reader.array()?;
        let kind = ChunkKind::from_byte(kind)?;
        let bytes = reader.number_u32()?;
        let name = reader.text()?.to_owned();
        Some(Self { key, kind, bytes, name, place: DocumentPlace::read(reader)? })
    }
}

/// A document that was seen again, in another source or elsewhere in the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepeatedDocument {
    pub(crate) key: DocumentKey,
    pub(crate) place: DocumentPlace,
}
