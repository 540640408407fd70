//! One score of two. Each is first measured in standard deviations from its own mean over all documents, which makes them comparable
//! whatever the index and the question; then they are added with weights that were learnt on a development split.
//!
//! Ranks are not added: with a small embedding, reciprocal rank fusion was worse than words alone (see `bench/README.md`).

use crate::recall::scores::SegmentScores;
use crate::recall::settings::FusionSettings;

/// A document with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) segment: usize,
    pub(super) document: u32,
    pub(super) score: f32,
}

/// The best documents, best first.
pub(super) fn best(scored: &[SegmentScores], settings: &FusionSettings, count: usize) -> Vec<Candidate> {
    let lexical = Spread::of(scored.iter().map(|segment| segment.lexical.as_slice()));
    let semantic = Spread::of(scored.iter().map(|segment| segment.semantic.as_slice()));
    let mut candidates = Vec::new();
    for (number, segment) in scored.iter().enumerate() {
        for (document, &words) in segment.lexical.iter().enumerate() {
            if segment.allowed.as_ref().is_some_and(|allowed| !allowed[document]) {
                continue;
            }
            let meaning = segment.semantic.get(document).map_or(0.0, |&cosine| semantic.measure(cosine));
            let score = settings.lexical * lexical.measure(words) + settings.semantic * meaning;
            candidates.push(Candidate { segment: number, document: document as u32, score });
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

/// Mean and standard deviation of a score.
#[derive(Debug, Clone, Copy)]
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of<'s>(scores: impl Iterator<Item = &'s [f32]>) -> Self {
        let (mut count, mut sum, mut squares) = (0usize, 0f64, 0f64);
        for score in scores.flatten() {
            count += 1;
            sum += f64::from(*score);
            squares += f64::from(*score) * f64::from(*score);
        }
        let mean = sum / count.max(1) as f64;
        let variance = (squares / count.max(1) as f64 - mean * mean).max(0.0);
        Self { mean, deviation: variance.sqrt() }
    }

    fn measure(self, score: f32) -> f32 {
        if self.deviation > 1e-9 { ((f64::from(score) - self.mean) / self.deviation) as f32 } else { 0.0 }
    }
}
