//! Where to change what.

use std::collections::BTreeMap;

use crate::facts::{FileRole, ProjectFacts};
use crate::structure::ProjectStructure;
use crate::text::escape::{cell_code, place};

/// Rows of one kind.
const MAX_ROWS: usize = 6;
/// Routes that are listed.
const MAX_ROUTES: usize = 20;

pub(super) fn places(facts: &ProjectFacts, structure: &ProjectStructure) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    for entry in facts.entries.iter().take(MAX_ROWS) {
        rows.push((
            format!("how {} starts", cell_code(&entry.name)),
            place(&facts.files[entry.file].path, entry.line),
        ));
    }
    let mut routed: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
    for route in &facts.routes {
        routed.entry(route.file).or_insert((route.line, 0)).1 += 1;
    }
    for (file, (line, count)) in routed.iter().take(MAX_ROWS) {
        let what = if *count == 1 { "an HTTP route".to_owned() } else { format!("{count} HTTP routes") };
        rows.push((what, place(&facts.files[*file].path, *line)));
    }
    for store in facts.stores.iter().take(MAX_ROWS) {
        rows.push((
            format!("what is kept in {}", store.name),
            place(&facts.files[store.file].path, store.line),
        ));
    }
    for part in structure.parts.iter().filter(|part| !part.key_symbols.is_empty()).take(8) {
        let symbol = &part.key_symbols[0];
        rows.push((
            format!("{} ({})", cell_code(&symbol.name), kind(facts, symbol.file, &symbol.name)),
            place(&facts.files[symbol.file].path, symbol.line),
        ));
    }
    for manifest in facts.manifests.iter().filter(|manifest| !manifest.dependencies.is_empty()).take(3) {
        rows.push(("libraries".to_owned(), place(&manifest.path, 1)));
    }
    let test = facts.files.iter().find(|file| file.role == FileRole::Test);
    if let Some(test) = test {
        let folder = test.path.rsplit_once('/').map_or(test.path.as_str(), |(folder, _)| folder);
        rows.push(("tests".to_owned(), cell_code(folder)));
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut out = String::from("## Where to change what\n\n| to change | look at |\n|---|---|\n");
    rows.iter().for_each(|(what, at)| out.push_str(&format!("| {what} | {at} |\n")));
    out.push_str(&routes(facts));
    out
}

fn kind<'facts>(facts: &'facts ProjectFacts, file: usize, name: &str) -> &'facts str {
    let found = facts.files[file].symbols.iter().find(|symbol| symbol.name == name);
    found.map_or("symbol", |symbol| symbol.kind.as_str())
}

fn routes(facts: &ProjectFacts) -> String {
    if facts.routes.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n| route | answered by |\n|---|---|\n");
    for route in facts.routes.iter().take(MAX_ROUTES) {
        let handler =
            route.handler.as_deref().map(|handler| format!("{} ", cell_code(handler))).unwrap_or_default();
        out.push_str(&format!(
            "| {} | {handler}{} |\n",
            cell_code(&format!("{} {}", route.method, route.path)),
            place(&facts.files[route.file].path, route.line)
        ));
    }
    let more = facts.routes.len().saturating_sub(MAX_ROUTES);
    if more > 0 {
        out.push_str(&format!("\nAnd {more} more routes.\n"));
    }
    out
}
