//! Two scores for every document: by words, and by meaning.

use crate::index::SearchableSegment;
use crate::recall::query::AnalysedQuery;

/// Scores of all documents of one segment.
#[derive(Debug)]
pub(super) struct SegmentScores {
    pub(super) lexical: Vec<f32>,
    /// Cosines; empty without a model.
    pub(super) semantic: Vec<f32>,
    /// Documents that may be returned; `None` if all may.
    pub(super) allowed: Option<Vec<bool>>,
}

/// Scores all documents.
pub(super) fn score(
    segments: &[&dyn SearchableSegment],
    query: &AnalysedQuery,
    allowed: Option<&[Vec<bool>]>,
) -> Vec<SegmentScores> {
    let score = |(number, segment): (usize, &&dyn SearchableSegment)| SegmentScores {
        lexical: lexical(*segment, query),
        semantic: query.vector.as_ref().map_or_else(Vec::new, |vector| vector.cosines(segment.vectors())),
        allowed: allowed.and_then(|allowed| allowed.get(number).cloned()),
    };
    segments.iter().enumerate().map(score).collect()
}

fn lexical(segment: &dyn SearchableSegment, query: &AnalysedQuery) -> Vec<f32> {
    let mut scores = vec![0f32; segment.documents() as usize];
    for (term, weight) in &query.terms {
        let Some(postings) = segment.postings(term) else { continue };
        let step = weight / 255.0;
        postings.for_each(|document, impact| {
            if let Some(score) = scores.get_mut(document as usize) {
                *score += step * f32::from(impact);
            }
        });
    }
    scores
}
