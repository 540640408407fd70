//! Which sources may answer a question.

use std::ops::RangeInclusive;

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::index::{DocumentKey, MemoryIndex, SearchableSegment};
use crate::source::{SourceOrigin, SourceRecord};

/// Limits of a question. Everything that is not set is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecallScope {
    /// Only texts of these origins; all if it is empty.
    pub origins: Vec<SourceOrigin>,
    /// Only sources whose path begins so.
    pub path_prefix: Option<String>,
    /// Only sources with these numbers: journal entries before or after some step.
    pub numbers: Option<RangeInclusive<u64>>,
}

impl RecallScope {
    /// True if a source may answer.
    pub fn admits(&self, source: &SourceRecord) -> bool {
        (self.origins.is_empty() || self.origins.contains(&source.origin))
            && self.path_prefix.as_ref().is_none_or(|prefix| source.path.starts_with(prefix.as_str()))
            && self.numbers.as_ref().is_none_or(|numbers| numbers.contains(&source.id.number))
    }

    fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

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
