//! Writes a segment file.

use crate::codec::ByteWriter;
use crate::index::dictionary::DictionaryWriter;
use crate::index::document::{DocumentRow, RepeatedDocument};
use crate::index::segment::{MAGIC, SegmentHead, SegmentSource, write_head, write_source};

/// The contents of a segment, in the order of its documents.
pub(super) struct SegmentContents {
    pub(super) head: SegmentHead,
    pub(super) sources: Vec<SegmentSource>,
    pub(super) documents: Vec<DocumentRow>,
    pub(super) repeats: Vec<RepeatedDocument>,
    pub(super) dictionary: DictionaryWriter,
    pub(super) vectors: Vec<u8>,
}

/// Returns the bytes of the file.
pub(super) fn seal(mut contents: SegmentContents) -> Vec<u8> {
    contents.repeats.sort_by_key(|repeat| repeat.key);
    let mut sources = ByteWriter::default();
    contents.sources.iter().for_each(|source| write_source(source, &mut sources));
    let (mut offsets, mut documents) = (ByteWriter::default(), ByteWriter::default());
    for row in &contents.documents {
        offsets.raw(&(documents.len() as u32).to_le_bytes());
        row.write(&mut documents);
    }
    let mut repeats = ByteWriter::default();
    for repeat in &contents.repeats {
        repeat.key.write(&mut repeats);
        repeat.place.write(&mut repeats);
    }
    let dictionary = contents.dictionary.finish();
    // The order of `Section`, then the vectors.
    let parts = [
        sources.into_bytes(),
        offsets.into_bytes(),
        documents.into_bytes(),
        repeats.into_bytes(),
        dictionary.blocks,
        dictionary.terms,
        dictionary.postings,
        contents.vectors,
    ];
    let mut head = ByteWriter::default();
    write_head(&contents.head, &mut head);
    for part in &parts {
        head.number(part.len() as u64);
        head.raw(&crc32fast::hash(part).to_le_bytes());
    }
    let head = head.into_bytes();
    let mut file = Vec::with_capacity(head.len() + parts.iter().map(Vec::len).sum::<usize>() + 16);
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&(head.len() as u32).to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
    file.extend_from_slice(&head);
    parts.iter().for_each(|part| file.extend_from_slice(part));
    file
}
