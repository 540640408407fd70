//! The parts: what each is, what it uses, and what the whole is built on.

use crate::facts::ProjectFacts;
use crate::structure::{ProjectPart, ProjectStructure};
use crate::text::escape::{cell_code, place, words};

/// Libraries that are named.
const MAX_LIBRARIES: usize = 12;

pub(super) fn parts(facts: &ProjectFacts, structure: &ProjectStructure) -> String {
    if structure.parts.is_empty() {
        return String::new();
    }
    let mut out =
        String::from("## The parts\n\n| part | what it is | starts at | uses |\n|---|---|---|---|\n");
    for (at, part) in structure.parts.iter().enumerate() {
        let mut uses: Vec<_> = structure.uses.iter().filter(|one| one.from == at).collect();
        uses.sort_by(|left, right| right.weight.total_cmp(&left.weight));
        let used: Vec<String> = uses.iter().map(|one| words(&structure.parts[one.to].name)).collect();
        let used = if used.is_empty() { "–".to_owned() } else { used.join(", ") };
        let start = part.files.first().map(|file| {
            let line =
                part.key_symbols.iter().find(|symbol| symbol.file == *file).map_or(1, |symbol| symbol.line);
            place(&facts.files[*file].path, line)
        });
        out.push_str(&format!(
            "| **{}** | {} | {} | {used} |\n",
            words(&part.name),
            about(facts, part),
            start.unwrap_or_default()
        ));
    }
    out.push_str(&libraries(facts));
    out
}

/// What a part is: its documentation, its size and its symbols.
fn about(facts: &ProjectFacts, part: &ProjectPart) -> String {
    let doc = part.files.iter().take(3).find_map(|file| facts.files[*file].doc.clone());
    let symbol_doc = || {
        let first = part.key_symbols.first()?;
        let found = facts.files[first.file].symbols.iter().find(|symbol| symbol.name == first.name)?;
        found.doc.clone()
    };
    let lines: u64 = part.files.iter().map(|file| u64::from(facts.files[*file].lines)).sum();
    let files =
        if part.files.len() == 1 { "1 file".to_owned() } else { format!("{} files", part.files.len()) };
    let size = format!("{files}, {} lines", super::opening::thousands(lines));
    let symbols: Vec<String> = part.key_symbols.iter().map(|symbol| cell_code(&symbol.name)).collect();
    let symbols = if symbols.is_empty() { String::new() } else { format!(" with {}", symbols.join(", ")) };
    match doc.or_else(symbol_doc) {
        Some(doc) => format!("{} ({size}{symbols})", words(&doc)),
        None => format!("{size}{symbols}"),
    }
}

fn libraries(facts: &ProjectFacts) -> String {
    let mut others: Vec<_> = facts.libraries.iter().filter(|library| !library.standard).collect();
    others.sort_by(|left, right| right.files.cmp(&left.files).then(left.name.cmp(&right.name)));
    if others.is_empty() {
        return "\nIt uses no libraries but those that come with its languages.\n".to_owned();
    }
    let named: Vec<String> = others
        .iter()
        .take(MAX_LIBRARIES)
        .map(|library| {
            let files =
                if library.files == 1 { "1 file".to_owned() } else { format!("{} files", library.files) };
            format!("{} ({files})", cell_code(&library.name))
        })
        .collect();
    let more = others.len().saturating_sub(MAX_LIBRARIES);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("\nIt is built on these libraries: {}{more}.\n", named.join(", "))
}
