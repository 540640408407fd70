//! A closer look at the best documents: names, files, tests, repetition, age.

use std::collections::BTreeMap;

use crate::chunk::ChunkKind;
use crate::index::{DocumentRow, SearchableSegment};
use crate::recall::fusion::Candidate;
use crate::recall::query::{AnalysedQuery, joined};
use crate::recall::settings::FusionSettings;

/// A document with its final score.
#[derive(Debug, Clone)]
pub(super) struct RankedDocument {
    pub(super) segment: usize,
    pub(super) row: DocumentRow,
    pub(super) score: f32,
}

/// Orders candidates by their score with all signals, best first.
pub(super) fn order(
    segments: &[&dyn SearchableSegment],
    query: &AnalysedQuery,
    candidates: Vec<Candidate>,
    settings: &FusionSettings,
) -> Vec<RankedDocument> {
    let newest = segments
        .iter()
        .flat_map(|segment| segment.sources())
        .map(|source| source.record.id.number)
        .max()
        .unwrap_or(0)
        .max(1);
    let mut ranked: Vec<RankedDocument> = Vec::with_capacity(candidates.len());
    for Candidate { segment, document, score } in candidates {
        let Some(row) = segments[segment].document(document) else { continue };
        let Some(source) = segments[segment].sources().get(row.place.source as usize) else { continue };
        let path = &source.record.path;
        let mut score = score;
        if row.kind == ChunkKind::Definition && names(&row.name, query) {
            score += settings.definition_bonus;
        }
        if names(file_stem(path), query) {
            score += settings.file_bonus;
        }
        if !query.about_tests && is_test(path) {
            score -= settings.test_penalty;
        }
        score += settings.recency_bonus * (source.record.id.number as f32 / newest as f32);
        ranked.push(RankedDocument { segment, row, score });
    }
    sort(&mut ranked);
    hold_back_repetitions(&mut ranked, settings.repetition_penalty);
    ranked
}

/// Gives the best documents by meaning every second place from the fourth on, unless they stand higher already.
pub(super) fn reserve(
    segments: &[&dyn SearchableSegment],
    by_meaning: Vec<Candidate>,
    ranked: &mut Vec<RankedDocument>,
) {
    const FIRST_PLACE: usize = 3;
    for (place, Candidate { segment, document, .. }) in (FIRST_PLACE..).step_by(2).zip(by_meaning) {
        let Some(row) = segments[segment].document(document) else { continue };
        let present = ranked.iter().position(|ranked| ranked.segment == segment && ranked.row.key == row.key);
        if present.is_none_or(|present| present > place) {
            let found = present.map(|present| ranked.remove(present));
            let score = ranked.get(place).or(ranked.last()).map_or(0.0, |below| below.score);
            let found = found.unwrap_or(RankedDocument { segment, row, score });
            ranked.insert(place.min(ranked.len()), RankedDocument { score, ..found });
        }
    }
}

/// Lowers the second and further documents of a source, so that one file does not take all places.
fn hold_back_repetitions(ranked: &mut [RankedDocument], penalty: f32) {
    let mut seen: BTreeMap<(usize, u32), f32> = BTreeMap::new();
    for document in ranked.iter_mut() {
        let before = seen.entry((document.segment, document.row.place.source)).or_default();
        document.score -= penalty * *before;
        *before += 1.0;
    }
    sort(ranked);
}

fn sort(ranked: &mut [RankedDocument]) {
    ranked.sort_by(|one, other| other.score.total_cmp(&one.score));
}

/// True if the last part of a dotted name is in the question.
fn names(name: &str, query: &AnalysedQuery) -> bool {
    let last = joined(name.rsplit(['.', ':', ' ']).next().unwrap_or(name));
    last.len() > 2 && query.names.contains(&last)
}

fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

/// Tests and examples use a thing; a question is usually about the thing.
fn is_test(path: &str) -> bool {
    path.split('/').any(|part| {
        let part = part.to_ascii_lowercase();
        matches!(part.as_str(), "test" | "tests" | "testing" | "__tests__" | "spec" | "examples" | "fixtures")
            || part.starts_with("test_")
            || part.contains("_test.")
            || part.contains(".test.")
            || part.contains(".spec.")
    })
}
