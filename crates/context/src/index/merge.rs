//! Makes one segment of several: documents of forgotten sources are left out, documents that were dropped with their source but seen again
//! elsewhere move there.

use std::collections::BTreeMap;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::index::dictionary::DictionaryWriter;
use crate::index::document::{DocumentKey, DocumentPlace, DocumentRow, RepeatedDocument};
use crate::index::postings::PostingsWriter;
use crate::index::seal::{SegmentContents, seal};
use crate::index::segment::{SealedSegment, SearchableSegment as _, SegmentHead, SegmentSource};
use sandyard_memory::SourceId;

/// New number of each document of an input.
type DocumentMap = Vec<Option<u32>>;

/// Returns the bytes of the merged segment. `inputs` are neighbours, oldest first, each with its number.
///
/// Sources may be forgotten only if the inputs are all segments of the index: another segment may refer to documents of these.
pub(super) fn merge(inputs: &[(u64, &SealedSegment)], forgotten: &HashSet<SourceId, RandomState>) -> Vec<u8> {
    let mut merging = Merging::new(inputs, forgotten);
    let maps: Vec<DocumentMap> = (0..inputs.len()).map(|input| merging.take_documents(input)).collect();
    let dictionary = dictionary(inputs, &maps);
    let mut vectors = Vec::new();
    for ((_, input), map) in inputs.iter().zip(&maps) {
        let vector_bytes = input.head.vector_bytes as usize;
        for (number, _) in map.iter().enumerate().filter(|(_, new)| new.is_some()) {
            vectors.extend_from_slice(&input.vectors()[number * vector_bytes..(number + 1) * vector_bytes]);
        }
    }
    let newest = inputs.last().map(|(_, input)| input.head.clone());
    let Merging { sources, documents, repeats, .. } = merging;
    let head = SegmentHead {
        fingerprint: newest.as_ref().map_or(0, |head| head.fingerprint),
        vector_bytes: newest.as_ref().map_or(0, |head| head.vector_bytes),
        documents: documents.len() as u32,
        text_bytes: documents.iter().map(|row| u64::from(row.bytes)).sum(),
        replaces: inputs.iter().map(|(number, _)| *number).collect(),
    };
    let repeated = |(key, places): (DocumentKey, Vec<DocumentPlace>)| {
        places.into_iter().map(move |place| RepeatedDocument { key, place })
    };
    let repeats = repeats.into_iter().flat_map(repeated).collect();
    seal(SegmentContents { head, sources, documents, repeats, dictionary, vectors })
}

struct Merging<'a> {
    inputs: &'a [(u64, &'a SealedSegment)],
    /// New number of each kept source of each input.
    source_maps: Vec<Vec<Option<u32>>>,
    sources: Vec<SegmentSource>,
    documents: Vec<DocumentRow>,
    /// Places in kept sources, with their new numbers.
    repeats: HashMap<DocumentKey, Vec<DocumentPlace>, RandomState>,
}

impl<'a> Merging<'a> {
    /// Numbers the kept sources, and collects the repeats in them.
    fn new(inputs: &'a [(u64, &'a SealedSegment)], forgotten: &HashSet<SourceId, RandomState>) -> Self {
        let mut sources = Vec::new();
        let mut repeats: HashMap<_, Vec<_>, _> = HashMap::default();
        let mut source_maps = Vec::new();
        for (_, input) in inputs {
            let mut map = Vec::with_capacity(input.sources().len());
            for source in input.sources() {
                let kept = !forgotten.contains(&source.record.id);
                map.push(kept.then_some(sources.len() as u32));
                if kept {
                    sources.push(SegmentSource { documents: 0..0, ..source.clone() });
                }
            }
            for repeat in input.repeats() {
                if let Some(source) = map[repeat.place.source as usize] {
                    repeats.entry(repeat.key).or_default().push(DocumentPlace { source, ..repeat.place });
                }
            }
            source_maps.push(map);
        }
        Self { inputs, source_maps, sources, documents: Vec::new(), repeats }
    }

    fn take_documents(&mut self, input: usize) -> DocumentMap {
        let (_, segment) = self.inputs[input];
        let mut map = vec![None; segment.documents() as usize];
        for (old, source) in segment.sources().iter().enumerate() {
            let first = self.documents.len() as u32;
            for number in source.documents.clone() {
                let Some(mut row) = segment.document(number) else { continue };
                row.place = match self.source_maps[input][row.place.source as usize] {
                    Some(source) => DocumentPlace { source, ..row.place },
                    // The document lives on if a kept source has it too.
                    None => match self.repeats.get(&row.key).and_then(|places| places.last()) {
                        Some(&place) => place,
                        None => continue,
                    },
                };
                map[number as usize] = Some(self.documents.len() as u32);
                self.documents.push(row);
            }
            if let Some(new) = self.source_maps[input][old] {
                self.sources[new as usize].documents = first..self.documents.len() as u32;
            }
        }
        map
    }
}

fn dictionary(inputs: &[(u64, &SealedSegment)], maps: &[DocumentMap]) -> DictionaryWriter {
    let mut readers: Vec<_> = inputs.iter().map(|(_, input)| input.dictionary().all()).collect();
    // The next term of each input. Inputs are few, so a sorted map is enough of a queue.
    let mut heads: BTreeMap<(String, usize), crate::index::postings::Postings<'_>> = BTreeMap::new();
    for (input, reader) in readers.iter_mut().enumerate() {
        if let Some((term, postings)) = reader.next() {
            heads.insert((term, input), postings);
        }
    }
    let mut dictionary = DictionaryWriter::default();
    let mut open: Option<(String, PostingsWriter)> = None;
    while let Some(((term, input), postings)) = heads.pop_first() {
        if open.as_ref().is_none_or(|(last, _)| *last != term) {
            push(&mut dictionary, open.replace((term, PostingsWriter::default())));
        }
        if let Some((_, writer)) = &mut open {
            let map = &maps[input];
            postings.for_each(|document, impact| {
                if let Some(Some(new)) = map.get(document as usize) {
                    writer.push(*new, impact);
                }
            });
        }
        if let Some((term, postings)) = readers[input].next() {
            heads.insert((term, input), postings);
        }
    }
    push(&mut dictionary, open);
    dictionary
}

fn push(dictionary: &mut DictionaryWriter, finished: Option<(String, PostingsWriter)>) {
    if let Some((term, writer)) = finished.filter(|(_, writer)| writer.view().count > 0) {
        dictionary.push(&term, writer.view());
    }
}
