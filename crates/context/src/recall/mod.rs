//! Recall: passages for a question, each with a citation that was checked against the source.
//!
//! `query` makes terms and a vector of the question; `scores` gives every document a score by words and one by meaning; `fusion` makes one
//! of both; `signals` looks closer at the best; `citation` reads the passages from their sources and compares them with the digests of the index.
//! Every document is scored: with dense arrays that costs milliseconds for half a million chunks, and the scores are exact, so they can be
//! calibrated and added.

mod citation;
mod fusion;
mod query;
mod scope;
mod scores;
mod settings;
mod signals;

pub use citation::{CitedPassage, RecallAnswer};
pub use settings::FusionSettings;

use sandyard_memory::messages::FoundPassage;
use sandyard_memory::{RecallScope, SourceReader};

use crate::index::MemoryIndex;

/// Documents that are looked at closely for each question.
const CANDIDATES: usize = 200;

/// A question to the memory.
#[derive(Debug, Clone)]
pub struct RecallQuestion<'q> {
    /// The question, in words or as an identifier or error message.
    pub text: &'q str,
    /// Passages wanted.
    pub count: usize,
    /// Which sources may answer.
    pub scope: RecallScope,
}

/// Finds passages for a question.
pub fn recall(
    index: &MemoryIndex,
    reader: &dyn SourceReader,
    question: &RecallQuestion<'_>,
    settings: &FusionSettings,
) -> RecallAnswer {
    let ranked = rank(index, question, settings);
    citation::cite(index, reader, &question.scope, ranked, question.count)
}

/// Finds the places of passages for a question, best first. Nothing is read again: whoever cites a passage must compare it with its digest.
pub fn find(
    index: &MemoryIndex,
    question: &RecallQuestion<'_>,
    settings: &FusionSettings,
) -> Vec<FoundPassage> {
    let ranked = rank(index, question, settings);
    citation::found(index, &question.scope, ranked, question.count)
}

/// The best documents for a question, without their texts.
fn rank(
    index: &MemoryIndex,
    question: &RecallQuestion<'_>,
    settings: &FusionSettings,
) -> Vec<signals::RankedDocument> {
    let segments = index.segments();
    let query = query::AnalysedQuery::new(question.text, &segments, index.model(), settings);
    let allowed = scope::allowed(index, &segments, &question.scope);
    let scored = scores::score(&segments, &query, allowed.as_deref());
    let wanted = CANDIDATES.max(question.count * 4);
    let candidates = fusion::best(&scored, settings, query.ideal, wanted);
    let mut ranked = signals::order(&segments, &query, candidates, settings);
    let by_meaning = fusion::best_by_meaning(&scored, settings.reserved);
    signals::reserve(&segments, by_meaning, &mut ranked);
    ranked
}
