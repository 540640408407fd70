//! Passages with their citations. The text of a passage is read from its source and compared with the digest of the index, so a citation
//! is right or missing, never wrong.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use serde::Serialize;

use crate::chunk::ChunkKind;
use crate::index::{DocumentPlace, MemoryIndex, SearchableSegment};
use crate::recall::signals::RankedDocument;
use sandyard_memory::messages::FoundPassage;
use sandyard_memory::{ContentDigest, PassagePlace, RecallScope, SourceId, SourceReader};

/// A passage that was found.
#[derive(Debug, Clone, Serialize)]
pub struct CitedPassage {
    /// The passage, byte by byte as it is in the source.
    #[serde(serialize_with = "as_text")]
    pub text: Vec<u8>,
    /// What the passage is.
    pub kind: ChunkKind,
    /// Name of the definition, or headings above the passage.
    pub name: String,
    /// The place from which the text was read: the newest that still has it.
    pub place: PassagePlace,
    /// In how many places the same text was seen.
    pub seen: usize,
    /// Digest of the text.
    pub digest: ContentDigest,
    /// How well it fits, for comparison with other passages of the same answer.
    pub score: f32,
}

impl CitedPassage {
    /// The passage as text.
    pub fn words(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }
}

fn as_text<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

/// What recall found.
#[derive(Debug, Clone, Default)]
pub struct RecallAnswer {
    /// Best first.
    pub passages: Vec<CitedPassage>,
    /// Passages that were left out because their source is gone or no longer has the text that was indexed.
    pub unverified: usize,
}

/// Places of one passage that are named: enough to find one that can still be read.
const MOST_PLACES: usize = 4;

/// The best documents with their places, without their texts.
pub(super) fn found(
    index: &MemoryIndex,
    scope: &RecallScope,
    ranked: Vec<RankedDocument>,
    count: usize,
) -> Vec<FoundPassage> {
    let segments = index.segments();
    let passage = |document: RankedDocument| {
        let mut places = places(index, &segments, scope, &document);
        let seen = places.len();
        places.reverse();
        let first = places.pop().into_iter();
        let places = places.into_iter().take(MOST_PLACES - 1).chain(first).collect();
        let (digest, bytes) = (document.row.key.digest, document.row.bytes);
        FoundPassage { name: document.row.name, digest, bytes, score: document.score, seen, places }
    };
    ranked.into_iter().take(count).map(passage).collect()
}

/// Reads the best documents until there are enough passages.
pub(super) fn cite(
    index: &MemoryIndex,
    reader: &dyn SourceReader,
    scope: &RecallScope,
    ranked: Vec<RankedDocument>,
    count: usize,
) -> RecallAnswer {
    let segments = index.segments();
    let mut sources = SourceCache { reader, read: HashMap::default() };
    let mut answer = RecallAnswer::default();
    for document in ranked {
        if answer.passages.len() >= count {
            break;
        }
        let places = places(index, &segments, scope, &document);
        let found =
            places.iter().rev().find_map(|place| sources.passage(place, &document).map(|text| (place, text)));
        let Some((place, text)) = found else {
            answer.unverified += 1;
            continue;
        };
        answer.passages.push(CitedPassage {
            text,
            kind: document.row.kind,
            name: document.row.name,
            seen: places.len(),
            place: place.clone(),
            digest: document.row.key.digest,
            score: document.score,
        });
    }
    answer
}

/// All places of a document in scope, oldest first.
fn places(
    index: &MemoryIndex,
    segments: &[&dyn SearchableSegment],
    scope: &RecallScope,
    document: &RankedDocument,
) -> Vec<PassagePlace> {
    let mut places = Vec::new();
    let mut add = |segment: &dyn SearchableSegment, place: DocumentPlace| {
        let Some(source) = segment.sources().get(place.source as usize) else { return };
        let DocumentPlace { start, first_line, last_line, .. } = place;
        let place = PassagePlace { source: source.record.clone(), start, first_line, last_line };
        if scope.admits(&source.record) && !index.is_forgotten(source.record.id) && !places.contains(&place) {
            places.push(place);
        }
    };
    add(segments[document.segment], document.row.place);
    for segment in segments {
        for repeat in segment.repeats_of(&document.row.key) {
            add(*segment, repeat.place);
        }
    }
    places.sort_by_key(|place| (place.source.at_ms, place.source.id, place.start));
    places
}

/// Sources that were read for one answer. Neighbouring passages often come from the same source.
struct SourceCache<'r> {
    reader: &'r dyn SourceReader,
    read: HashMap<SourceId, Option<Vec<u8>>, RandomState>,
}

impl SourceCache<'_> {
    /// The bytes of a passage, if the source still has exactly these.
    fn passage(&mut self, place: &PassagePlace, document: &RankedDocument) -> Option<Vec<u8>> {
        let reader = self.reader;
        let source = self.read.entry(place.source.id).or_insert_with(|| reader.read(&place.source));
        let start = usize::try_from(place.start).ok()?;
        let bytes = source.as_ref()?.get(start..start.checked_add(document.row.bytes as usize)?)?;
        (ContentDigest::of(bytes) == document.row.key.digest).then(|| bytes.to_vec())
    }
}
