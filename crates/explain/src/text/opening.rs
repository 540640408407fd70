//! What the project is.

use std::collections::BTreeSet;

use crate::facts::{FileRole, ProjectFacts};
use crate::structure::ProjectStructure;
use crate::text::escape::words;

/// What the project is, in its own words if it has any, else in numbers.
pub fn sentence(facts: &ProjectFacts) -> String {
    let described = facts
        .manifests
        .iter()
        .filter(|manifest| !manifest.path.contains('/'))
        .find_map(|manifest| manifest.description.clone());
    let described = described.filter(|text| text.trim().len() > 3).or_else(|| facts.readme.clone());
    let text = described.unwrap_or_else(|| kind_sentence(facts));
    let text = text.trim();
    if text.ends_with(['.', '!', '?', '…']) { text.to_owned() } else { format!("{text}.") }
}

/// What kind of project it is, judged by what it starts.
fn kind_sentence(facts: &ProjectFacts) -> String {
    let shares = facts.languages();
    let language = shares.first().map(|share| share.name.as_str()).unwrap_or("text");
    let article = if language.starts_with(['A', 'E', 'I', 'O', 'U']) { "An" } else { "A" };
    let kind = match (facts.routes.is_empty(), facts.entries.len(), has_face(facts)) {
        (false, _, _) => "web service".to_owned(),
        (true, 0, _) => "library".to_owned(),
        (true, 1, true) => "library with a command".to_owned(),
        (true, count, true) => format!("library with {count} commands"),
        (true, 1, false) => "program".to_owned(),
        (true, count, false) => format!("project with {count} programs"),
    };
    format!("{article} {language} {kind}")
}

/// Files that a face brings together, at least.
const FACE_FILES: usize = 2;

/// True if a file brings others together for those who import the project: it is a library, even if it can also be run.
fn has_face(facts: &ProjectFacts) -> bool {
    let is_face = |path: &str| {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let outer = match name {
            "__init__.py" => {
                let above = folder.rsplit_once('/').map_or("", |(above, _)| above);
                let inits = format!("{above}/__init__.py");
                return !folder.is_empty() && facts.files.iter().all(|file| file.path != inits);
            }
            "lib.rs" => "src",
            "index.js" | "index.mjs" | "index.ts" => folder.rsplit('/').next().unwrap_or_default(),
            _ => return false,
        };
        // The root of the tree, or of a package in it.
        matches!(outer, "" | "src" | "lib") && folder.matches('/').count() <= 2
    };
    let mut faces = (0..facts.files.len())
        .filter(|file| facts.files[*file].role == FileRole::Source && is_face(&facts.files[*file].path));
    faces.any(|face| {
        let brought: BTreeSet<usize> =
            facts.dependencies().filter(|one| one.from == face).map(|one| one.to).collect();
        brought.len() >= FACE_FILES
    })
}

pub(super) fn opening(facts: &ProjectFacts, structure: &ProjectStructure) -> String {
    let mut out = format!("# {}\n\n{}\n\n", words(facts.project_name()), words(&sentence(facts)));
    if facts.files.is_empty() {
        out.push_str("No source code was found here.\n");
        return out;
    }
    let shares = facts.languages();
    let listed: Vec<String> = shares
        .iter()
        .take(4)
        .map(|share| format!("{} ({} files, {} lines)", share.name, share.files, thousands(share.lines)))
        .collect();
    let more =
        if shares.len() > 4 { format!(" and {} more languages", shares.len() - 4) } else { String::new() };
    let tests = facts.files.iter().filter(|file| file.role == FileRole::Test).count();
    let tests = match tests {
        0 => "No tests were found.".to_owned(),
        1 => "1 file is a test.".to_owned(),
        count => format!("{count} of the files are tests."),
    };
    out.push_str(&format!("Written in {}{more}. {tests}", listed.join(", ")));
    let count = structure.parts.len();
    if count > 1 {
        out.push_str(&format!(" It has {count} parts:\n"));
    } else {
        out.push('\n');
    }
    out.push_str("\n![The parts of the project and how they use each other](diagram.svg)\n");
    out
}

/// A number with commas.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
