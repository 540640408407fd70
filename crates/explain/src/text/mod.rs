//! `EXPLAINED.md`: the page for somebody who never saw the project, made of facts alone.

mod commands;
mod escape;
mod opening;
mod parts;
mod places;
mod risks;
mod walkthrough;

pub use escape::{code_span, rebase_links};
pub use opening::sentence;

use crate::facts::{JobNotes, ProjectFacts};
use crate::structure::ProjectStructure;

/// Writes the page.
pub fn markdown(facts: &ProjectFacts, structure: &ProjectStructure, notes: &JobNotes) -> String {
    let sections = [
        opening::opening(facts, structure),
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
