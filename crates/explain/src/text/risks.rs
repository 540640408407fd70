//! What is unfinished or risky, and what was not looked at.

use crate::facts::{FileDepth, FileRole, ProjectFacts};
use crate::structure::ProjectStructure;
use crate::text::escape::{code_span, place, words};

/// Notes that are listed.
const MAX_MARKS: usize = 10;
/// A file with more lines is hard to change.
const LONG_FILE_LINES: u32 = 1500;

pub(super) fn risks(facts: &ProjectFacts, structure: &ProjectStructure) -> String {
    let mut items: Vec<String> = Vec::new();
    let sources = || facts.files.iter().filter(|file| file.role == FileRole::Source);
    if sources().count() > 1 && facts.files.iter().all(|file| file.role != FileRole::Test) {
        items.push("There are no tests.".to_owned());
    }
    let broken: Vec<String> = sources()
        .filter(|file| file.depth == FileDepth::WithErrors)
        .take(5)
        .map(|file| code_span(&file.path))
        .collect();
    if !broken.is_empty() {
        items.push(format!(
            "Mistakes in the syntax, or syntax that is not known here: {}.",
            broken.join(", ")
        ));
    }
    items.extend(circles(structure));
    let mut long: Vec<_> = sources().filter(|file| file.lines > LONG_FILE_LINES).collect();
    long.sort_by_key(|file| std::cmp::Reverse(file.lines));
    let long: Vec<String> =
        long.iter().take(5).map(|file| format!("{} ({} lines)", code_span(&file.path), file.lines)).collect();
    if !long.is_empty() {
        items.push(format!("Very long files: {}.", long.join(", ")));
    }
    for mark in facts.marks.iter().take(MAX_MARKS) {
        items.push(format!("{} {}", place(&facts.files[mark.file].path, mark.line), code_span(&mark.text)));
    }
    let more = facts.marks.len().saturating_sub(MAX_MARKS);
    if more > 0 {
        items.push(format!("{more} more notes of this kind."));
    }
    if items.is_empty() {
        return "## What is unfinished or risky\n\nNothing that the code itself tells.\n".to_owned();
    }
    let mut out = String::from("## What is unfinished or risky\n\n");
    items.iter().for_each(|item| out.push_str(&format!("- {item}\n")));
    out
}

/// Parts that use each other cannot be changed alone.
fn circles(structure: &ProjectStructure) -> Option<String> {
    let mutual = structure.uses.iter().filter(|one| {
        one.from < one.to && structure.uses.iter().any(|back| back.from == one.to && back.to == one.from)
    });
    let mut names: Vec<String> = mutual
        .map(|one| {
            format!("{} and {}", words(&structure.parts[one.from].name), words(&structure.parts[one.to].name))
        })
        .collect();
    let more = names.len().saturating_sub(4);
    names.truncate(4);
    let more = if more > 0 { format!(", and {more} more pairs") } else { String::new() };
    (!names.is_empty()).then(|| {
        format!(
            "Parts that use each other, so that neither can be changed alone: {}{more}.",
            names.join("; ")
        )
    })
}

pub(super) fn left_out(facts: &ProjectFacts) -> String {
    let left = &facts.left_out;
    let counts = [
        (left.vendored, "vendored"),
        (left.generated, "generated"),
        (left.binary, "binary"),
        (left.ignored, "ignored by git"),
        (left.unreadable, "links or unreadable"),
        (left.beyond_bounds, "too large or too many"),
    ];
    let told: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let told = if told.is_empty() { String::new() } else { format!(" Left out: {}.", told.join(", ")) };
    format!(
        "---\n\nEverything above is computed from the code: each arrow of the picture stands for lines that exist.{told}\n"
    )
}
