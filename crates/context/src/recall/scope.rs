//! Which sources may answer a question.

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::index::{DocumentKey, MemoryIndex, SearchableSegment};
use sandyard_memory::{RecallScope, SourceRecord};

/// For each segment, which documents a source in scope has. `None` if all documents may be returned.
pub(super) fn allowed(
    index: &MemoryIndex,
    segments: &[&dyn SearchableSegment],
    scope: &RecallScope,
) -> Option<Vec<Vec<bool>>> {
    if scope.is_everything() && !index.has_forgotten() {
        return None;
    }
    let admits = |source: &SourceRecord| scope.admits(source) && !index.is_forgotten(source.id);
    let mut repeated: HashSet<DocumentKey, RandomState> = HashSet::default();
    let mut allowed: Vec<Vec<bool>> = Vec::with_capacity(segments.len());
    for segment in segments {
        let mut documents = vec![false; segment.documents() as usize];
        let admitted: Vec<bool> = segment.sources().iter().map(|source| admits(&source.record)).collect();
        for source in segment
            .sources()
            .iter()
            .zip(&admitted)
            .filter(|(_, admitted)| **admitted)
            .map(|(source, _)| source)
        {
            let range = source.documents.start as usize..source.documents.end as usize;
            documents.get_mut(range).into_iter().for_each(|documents| documents.fill(true));
        }
        let repeats = segment.repeats().iter();
        repeated
            .extend(repeats.filter(|repeat| admitted[repeat.place.source as usize]).map(|repeat| repeat.key));
        allowed.push(documents);
    }
    if !repeated.is_empty() {
        for (segment, documents) in segments.iter().zip(&mut allowed) {
            for (number, allowed) in (0..).zip(documents).filter(|(_, allowed)| !**allowed) {
                *allowed = segment.document(number).is_some_and(|row| repeated.contains(&row.key));
            }
        }
    }
    Some(allowed)
}
