//! One score of two.
//!
//! The score by words is divided by what a document would have that is about nothing but the question, so it is the share of the question that
//! the document answers; the score by meaning is a cosine. Both mean the same for every question and every size of index, so they
//! are added with weights that were learnt on a development split. Measured in standard deviations instead, words outweigh meaning more and
//! more as the index grows; and with added ranks a small embedding made the answers worse than words alone (see `bench/README.md`).

use crate::recall::scores::SegmentScores;
use crate::recall::settings::FusionSettings;

/// A document with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) segment: usize,
    pub(super) document: u32,
    pub(super) score: f32,
}

/// The best documents, best first. `ideal` is the score by words of a perfect answer.
pub(super) fn best(
    scored: &[SegmentScores],
    settings: &FusionSettings,
    ideal: f32,
    count: usize,
) -> Vec<Candidate> {
    let lexical = settings.lexical / ideal.max(f32::MIN_POSITIVE);
    highest(scored, count, |segment, document| {
        let cosine = segment.semantic.get(document).copied().unwrap_or(0.0);
        lexical * segment.lexical[document] + settings.semantic * cosine
    })
}

/// The documents that are best by meaning alone.
pub(super) fn best_by_meaning(scored: &[SegmentScores], count: usize) -> Vec<Candidate> {
    if count == 0 || scored.iter().all(|segment| segment.semantic.is_empty()) {
        return Vec::new();
    }
    highest(scored, count, |segment, document| segment.semantic.get(document).copied().unwrap_or(0.0))
}

fn highest(
    scored: &[SegmentScores],
    count: usize,
    score: impl Fn(&SegmentScores, usize) -> f32,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (number, segment) in scored.iter().enumerate() {
        for document in 0..segment.lexical.len() {
            if segment.allowed.as_ref().is_none_or(|allowed| allowed[document]) {
                let score = score(segment, document);
                candidates.push(Candidate { segment: number, document: document as u32, score });
            }
        }
    }
    // Equal scores are ordered by place, so that an answer is the same every time.
    let order = |one: &Candidate, other: &Candidate| {
        other
            .score
            .total_cmp(&one.score)
            .then((one.segment, one.document).cmp(&(other.segment, other.document)))
    };
    if candidates.len() > count && count > 0 {
        candidates.select_nth_unstable_by(count - 1, order);
        candidates.truncate(count);
    }
    candidates.sort_by(order);
    candidates
}
