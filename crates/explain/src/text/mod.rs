//! `EXPLAINED.md`: the page for somebody who never saw the project, made of facts alone.

mod changes;
mod commands;
mod escape;
mod opening;
mod parts;
mod places;
mod risks;
mod succeeded;
mod walkthrough;

pub use escape::{code_span, rebase_links};
pub(crate) use escape::{place, words_with_names};
pub use opening::sentence;

use crate::changes::ProjectChanges;
use crate::facts::{JobNotes, ProjectFacts};
use crate::structure::ProjectStructure;

/// Writes the page.
pub fn markdown(
    facts: &ProjectFacts,
    structure: &ProjectStructure,
    notes: &JobNotes,
    changes: Option<&ProjectChanges>,
) -> String {
    let sections = [
        opening::opening(facts, structure),
        changes.map(|changes| changes::changes(changes, notes)).unwrap_or_default(),
        commands::commands(facts, notes),
        parts::parts(facts, structure),
        walkthrough::walkthrough(facts, structure),
        places::places(facts, structure),
        risks::risks(facts, structure),
        risks::left_out(facts),
    ];
    let written: Vec<String> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    written.join("\n")
}
