//! The question as terms with weights, and as a vector.

use std::collections::BTreeMap;

use crate::embed::{EmbeddingModel, WideVector};
use crate::index::SearchableSegment;
use crate::recall::settings::FusionSettings;
use sandyard_memory::terms::{parts, runs, stem, terms_of_run};

/// Terms of one question. Further ones are ignored: a whole file as a question would take seconds.
const MOST_TERMS: usize = 64;

/// A question ready to be compared with documents.
#[derive(Debug)]
pub(super) struct AnalysedQuery {
    /// With weights: inverse document frequency times the weight of the term in the question.
    pub(super) terms: Vec<(String, f32)>,
    /// What a document would score that is about nothing but the question.
    pub(super) ideal: f32,
    /// Words of the question in lower case, joined: what an exact name is compared with.
    pub(super) names: Vec<String>,
    pub(super) vector: Option<WideVector>,
    /// True if the question speaks of tests.
    pub(super) about_tests: bool,
}

impl AnalysedQuery {
    pub(super) fn new(
        text: &str,
        segments: &[&dyn SearchableSegment],
        model: Option<&EmbeddingModel>,
        settings: &FusionSettings,
    ) -> Self {
        let mut weights: BTreeMap<String, f32> = BTreeMap::new();
        let mut names = Vec::new();
        let mut before: Option<String> = None;
        runs(text, |run| {
            terms_of_run(run, |term| *weights.entry(term.to_owned()).or_default() += 1.0);
            let whole = joined(run);
            // `file name` also asks for `filename`.
            if let Some(before) = before.replace(whole.clone()) {
                let pair = format!("{before}{whole}");
                weights.entry(stem(&pair).into_owned()).or_insert(settings.pair_weight);
                names.push(pair);
            }
            names.push(whole);
        });
        let about_tests = names.iter().any(|name| name.starts_with("test") || name == "spec");
        let vector = model.map(|model| WideVector::new(&model.vector_of(text)));
        let (terms, ideal) = weighted(weights, segments);
        Self { terms, ideal, names, vector, about_tests }
    }
}

/// An identifier without its borders, in lower case.
pub(super) fn joined(run: &str) -> String {
    let mut whole = String::with_capacity(run.len());
    parts(run, |part| whole.push_str(&part.to_lowercase()));
    whole
}

/// Multiplies by inverse document frequency, and drops terms that no document has.
fn weighted(
    weights: BTreeMap<String, f32>,
    segments: &[&dyn SearchableSegment],
) -> (Vec<(String, f32)>, f32) {
    let mut ideal = 0.0;
    let documents: f32 = segments.iter().map(|segment| segment.documents() as f32).sum();
    let mut terms: Vec<(String, f32)> = weights
        .into_iter()
        .filter_map(|(term, weight)| {
            let count = |segment: &&dyn SearchableSegment| {
                segment.postings(&term).map_or(0, |postings| postings.count)
            };
            let found: u32 = segments.iter().map(count).sum();
            let rarity = (1.0 + (documents - found as f32 + 0.5) / (found as f32 + 0.5)).ln();
            if weight >= 1.0 {
                ideal += weight.sqrt() * rarity;
            }
            (found > 0).then(|| (term, weight.sqrt() * rarity))
        })
        .collect();
    terms.sort_by(|one, other| other.1.total_cmp(&one.1));
    terms.truncate(MOST_TERMS);
    (terms, ideal)
}
