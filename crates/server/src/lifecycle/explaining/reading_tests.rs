//! Answers of a reader in wrong hands.

use std::path::Path;

use sandyard_explain::claims::{ClaimCitation, ModelClaim, check_claims};
use sandyard_explain::narration::{add_prose, narration_brief};
use sandyard_explain::page::explained_page;
use sandyard_memory::messages::{MemoryReply, text_number};

use super::*;

/// A claim about every file that has a definition, so that the check of claims looks at all of them.
fn claims(facts: &ProjectFacts) -> Vec<ModelClaim> {
    let cited = facts.files.iter().map(|file| ClaimCitation {
        path: file.path.clone(),
        symbol: file.symbols.first().map(|symbol| symbol.name.clone()),
    });
    cited.map(|place| ModelClaim { text: "It does its work.".to_owned(), citations: vec![place] }).collect()
}

/// Does with an explanation what the end of a job does: the brief for a model, its words, and the page.
fn use_explained(mut explained: ExplainedFacts) {
    let _ = narration_brief(&explained.explanation, &explained.facts);
    let checked = check_claims(&explained.facts, &claims(&explained.facts));
    add_prose(&mut explained.explanation, checked.verified);
    let keep = |link: &str| Some(link.to_owned());
    let page = explained_page(&explained.explanation.name, &explained.explanation.markdown, &[], &keep);
    let lower = page.to_ascii_lowercase();
    assert!(!lower.contains("<script") && !lower.contains("<iframe"), "{page}");
}

/// Whatever a reader answers, about a project or as the memory of a job, is used or refused.
#[test]
fn fuzz_answers() {
    sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "answers").run(|bytes| {
        if let Ok(explained) = parse(bytes) {
            use_explained(explained);
        }
        if let Ok(MemoryReply::Found { passages }) = serde_json::from_slice(bytes) {
            for place in passages.iter().flat_map(|passage| &passage.places) {
                let _ = text_number(place.source.id);
            }
        }
    });
}

#[test]
fn a_fact_about_a_file_that_is_not_named_is_refused() {
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/answers/project");
    let sound = std::fs::read(seed).unwrap();
    assert!(parse(&sound).is_ok());
    let mut value: serde_json::Value = serde_json::from_slice(&sound).unwrap();
    value["facts"]["entries"][0]["file"] = 1_000_000.into();
    let refused = parse(value.to_string().as_bytes()).unwrap_err();
    assert!(matches!(refused, ExplainError::Reader(_)), "{refused}");
}
