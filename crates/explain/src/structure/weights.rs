//! How strongly files are connected, and how much they matter.

use std::collections::BTreeMap;

use crate::facts::{ProjectFacts, UseKind};
use crate::graph::personalised_pagerank;

/// Weights of uses between files.
pub(super) struct FileWeights {
    directed: BTreeMap<(usize, usize), f64>,
}

impl FileWeights {
    /// A pair of files counts once, and by the logarithm of how often: a hundred calls are not a hundred reasons.
    pub(super) fn new(facts: &ProjectFacts) -> Self {
        let mut counts: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for one in facts.dependencies() {
            let weight = match one.kind {
                UseKind::Call => 1.0,
                UseKind::Reference | UseKind::Import | UseKind::Indirect => 0.7,
            };
            *counts.entry((one.from, one.to)).or_default() += weight;
        }
        let directed = counts.into_iter().map(|(pair, count)| (pair, 1.0 + (1.0 + count).ln())).collect();
        Self { directed }
    }

    /// Weights by (from, to).
    pub(super) fn directed(&self) -> impl Iterator<Item = (&(usize, usize), &f64)> {
        self.directed.iter()
    }
}

/// Rank of each file: walks begin at entries and routes, and at every file a little.
pub(super) fn file_ranks(facts: &ProjectFacts) -> Vec<f64> {
    let weights = FileWeights::new(facts);
    let edges: Vec<(usize, usize, f64)> =
        weights.directed().map(|((from, to), weight)| (*from, *to, *weight)).collect();
    let mut preference = vec![1.0; facts.files.len()];
    let starts =
        facts.entries.iter().map(|entry| entry.file).chain(facts.routes.iter().map(|route| route.file));
    for file in starts {
        preference[file] = 10.0;
    }
    personalised_pagerank(&edges, &preference)
}
