//! A sealed segment: one file, checked as a whole when it is opened and never changed afterwards.
//!
//! The file is read into memory rather than mapped. Its checksums have to be computed at opening anyway, the index is a fraction of the text,
//! and a mapped file that somebody truncates ends the process that reads it.

use std::ops::Range;

use crate::codec::{ByteReader, ByteWriter};
use crate::index::dictionary::Dictionary;
use crate::index::document::{DocumentKey, DocumentPlace, DocumentRow, RepeatedDocument};
use crate::index::postings::Postings;
use sandyard_memory::{ContentDigest, SourceId, SourceOrigin, SourceRecord};

/// A source and the documents that it was the first to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentSource {
    pub(crate) record: SourceRecord,
    pub(crate) documents: Range<u32>,
}

/// A segment that can be searched, in memory or sealed.
pub(crate) trait SearchableSegment {
    /// Number of documents.
    fn documents(&self) -> u32;
    /// The postings of a term.
    fn postings(&self, term: &str) -> Option<Postings<'_>>;
    /// Vectors of all documents one after the other, packed; empty if the index has none.
    fn vectors(&self) -> &[u8];
    fn document(&self, number: u32) -> Option<DocumentRow>;
    fn sources(&self) -> &[SegmentSource];
    /// Documents of this or other segments that sources of this one have too.
    fn repeats(&self) -> &[RepeatedDocument];
    /// The repeats of one document.
    fn repeats_of(&self, key: &DocumentKey) -> Vec<RepeatedDocument>;
}

/// Begins every segment file.
pub(super) const MAGIC: &[u8; 8] = b"SYmemory";
/// Raised whenever the layout or the meaning of a field changes. Files of other versions are dropped.
pub(super) const VERSION: u64 = 1;
/// Number of sections of a file.
pub(super) const SECTIONS: usize = 7;

/// The sections of a file, in their order.
#[derive(Debug, Clone, Copy)]
pub(super) enum Section {
    Sources,
    DocumentOffsets,
    Documents,
    Repeats,
    TermBlocks,
    Terms,
    Postings,
}

/// What the head of a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    /// Fingerprint of settings and model: files made with others are dropped.
    pub(crate) fingerprint: u64,
    /// Bytes of one vector; 0 without vectors.
    pub(crate) vector_bytes: u32,
    pub(crate) documents: u32,
    /// Bytes of text that the documents were made of.
    pub(crate) text_bytes: u64,
    /// Numbers of the segments that this one replaces.
    pub(crate) replaces: Vec<u64>,
}

/// Why a file is no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SegmentFlaw {
    #[error("it is cut off or damaged")]
    Damaged,
    #[error("it was made by another version or with other settings")]
    Foreign,
}

/// A file that was read and found whole.
#[derive(Debug)]
pub(crate) struct SealedSegment {
    pub(crate) head: SegmentHead,
    bytes: Vec<u8>,
    sections: [Range<usize>; SECTIONS],
    vectors: Range<usize>,
    sources: Vec<SegmentSource>,
    /// Sorted by key.
    repeats: Vec<RepeatedDocument>,
}

impl SealedSegment {
    /// Checks all bytes of a file.
    pub(crate) fn open(bytes: Vec<u8>, fingerprint: u64) -> Result<Self, SegmentFlaw> {
        let (head, sections, vectors) = layout(&bytes)?;
        if head.fingerprint != fingerprint {
            return Err(SegmentFlaw::Foreign);
        }
        let part = |section: Section| &bytes[sections[section as usize].clone()];
        let sources = read_all(part(Section::Sources), read_source).ok_or(SegmentFlaw::Damaged)?;
        let repeats = read_all(part(Section::Repeats), read_repeat).ok_or(SegmentFlaw::Damaged)?;
        let sealed = Self { head, sections, vectors, sources, repeats, bytes };
        sealed.is_consistent().then_some(sealed).ok_or(SegmentFlaw::Damaged)
    }

    /// Size of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn dictionary(&self) -> Dictionary<'_> {
        Dictionary {
            blocks: self.section(Section::TermBlocks),
            terms: self.section(Section::Terms),
            postings: self.section(Section::Postings),
        }
    }

    fn section(&self, section: Section) -> &[u8] {
        &self.bytes[self.sections[section as usize].clone()]
    }

    /// Counts that belong together agree. The checksums have proved that the file is as it was written; this guards against a writer with
    /// an error.
    fn is_consistent(&self) -> bool {
        let documents = self.head.documents as usize;
        let sources = self.sources.len();
        self.section(Section::DocumentOffsets).len() == documents * 4
            && self.vectors.len() == documents * self.head.vector_bytes as usize
            && self.sources.iter().all(|source| source.documents.end as usize <= documents)
            && self.repeats.iter().all(|repeat| (repeat.place.source as usize) < sources)
    }
}

impl SearchableSegment for SealedSegment {
    fn documents(&self) -> u32 {
        self.head.documents
    }

    fn postings(&self, term: &str) -> Option<Postings<'_>> {
        self.dictionary().find(term)
    }

    fn vectors(&self) -> &[u8] {
        &self.bytes[self.vectors.clone()]
    }

    fn document(&self, number: u32) -> Option<DocumentRow> {
        let offsets = self.section(Section::DocumentOffsets).get(number as usize * 4..)?;
        let offset = u32::from_le_bytes(ByteReader::new(offsets).array()?) as usize;
        let row = DocumentRow::read(&mut ByteReader::new(self.section(Section::Documents).get(offset..)?))?;
        ((row.place.source as usize) < self.sources.len()).then_some(row)
    }

    fn sources(&self) -> &[SegmentSource] {
        &self.sources
    }

    fn repeats(&self) -> &[RepeatedDocument] {
        &self.repeats
    }

    fn repeats_of(&self, key: &DocumentKey) -> Vec<RepeatedDocument> {
        let first = self.repeats.partition_point(|repeat| repeat.key < *key);
        self.repeats[first..].iter().take_while(|repeat| repeat.key == *key).copied().collect()
    }
}

type SegmentLayout = (SegmentHead, [Range<usize>; SECTIONS], Range<usize>);

/// Reads the head, and checks the length of the file and the checksum of each part.
fn layout(bytes: &[u8]) -> Result<SegmentLayout, SegmentFlaw> {
    read_layout(bytes).unwrap_or(Err(SegmentFlaw::Damaged))
}

fn read_layout(bytes: &[u8]) -> Option<Result<SegmentLayout, SegmentFlaw>> {
    let mut reader = ByteReader::new(bytes);
    if reader.raw(MAGIC.len())? != MAGIC {
        return None;
    }
    let len = u32::from_le_bytes(reader.array()?) as usize;
    let checksum = u32::from_le_bytes(reader.array()?);
    let head = reader.raw(len)?;
    if crc32fast::hash(head) != checksum {
        return None;
    }
    let mut at = MAGIC.len() + 8 + len;
    let mut head = ByteReader::new(head);
    if head.number()? != VERSION {
        return Some(Err(SegmentFlaw::Foreign));
    }
    let parsed = read_head(&mut head)?;
    let mut parts = Vec::with_capacity(SECTIONS + 1);
    for _ in 0..=SECTIONS {
        let len = usize::try_from(head.number()?).ok()?;
        let checksum = u32::from_le_bytes(head.array()?);
        let part = at..at.checked_add(len)?;
        if crc32fast::hash(bytes.get(part.clone())?) != checksum {
            return None;
        }
        at = part.end;
        parts.push(part);
    }
    let vectors = parts.pop()?;
    let sections = parts.try_into().ok()?;
    (at == bytes.len()).then_some(Ok((parsed, sections, vectors)))
}

fn read_head(head: &mut ByteReader<'_>) -> Option<SegmentHead> {
    let fingerprint = u64::from_le_bytes(head.array()?);
    let vector_bytes = head.number_u32()?;
    let documents = head.number_u32()?;
    let text_bytes = head.number()?;
    let replaces = (0..head.count()?).map(|_| head.number()).collect::<Option<_>>()?;
    Some(SegmentHead { fingerprint, vector_bytes, documents, text_bytes, replaces })
}

pub(super) fn write_head(head: &SegmentHead, writer: &mut ByteWriter) {
    writer.number(VERSION);
    writer.raw(&head.fingerprint.to_le_bytes());
    writer.number(u64::from(head.vector_bytes));
    writer.number(u64::from(head.documents));
    writer.number(head.text_bytes);
    writer.number(head.replaces.len() as u64);
    for number in &head.replaces {
        writer.number(*number);
    }
}

fn read_all<T>(bytes: &[u8], read: impl Fn(&mut ByteReader<'_>) -> Option<T>) -> Option<Vec<T>> {
    let mut reader = ByteReader::new(bytes);
    let mut all = Vec::new();
    while !reader.is_empty() {
        all.push(read(&mut reader)?);
    }
    Some(all)
}

fn read_source(reader: &mut ByteReader<'_>) -> Option<SegmentSource> {
    let id = SourceId { number: reader.number()?, part: reader.number_u32()? };
    let [origin] = reader.array()?;
    let origin = SourceOrigin::from_byte(origin)?;
    let path = reader.text()?.to_owned();
    let at_ms = reader.number()?;
    let digest = ContentDigest::from_bytes(reader.array()?);
    let bytes = reader.number()?;
    let first = reader.number_u32()?;
    let documents = first..first.checked_add(reader.number_u32()?)?;
    Some(SegmentSource { record: SourceRecord { id, origin, path, at_ms, digest, bytes }, documents })
}

pub(super) fn write_source(source: &SegmentSource, writer: &mut ByteWriter) {
    let SourceRecord { id, origin, path, at_ms, digest, bytes } = &source.record;
    writer.number(id.number);
    writer.number(u64::from(id.part));
    writer.raw(&[origin.to_byte()]);
    writer.text(path);
    writer.number(*at_ms);
    writer.raw(&digest.to_bytes());
    writer.number(*bytes);
    writer.number(u64::from(source.documents.start));
    writer.number(u64::from(source.documents.end - source.documents.start));
}

fn read_repeat(reader: &mut ByteReader<'_>) -> Option<RepeatedDocument> {
    Some(RepeatedDocument { key: DocumentKey::read(reader)?, place: DocumentPlace::read(reader)? })
}
