//! What the project is.

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
    let kind = match (facts.routes.is_empty(), facts.entries.len()) {
        (false, _) => "web service".to_owned(),
        (true, 0) => "library".to_owned(),
        (true, 1) => "program".to_owned(),
        (true, count) => format!("project with {count} programs"),
    };
    format!("{article} {language} {kind}")
}

pub(super) fn opening(facts: &ProjectFacts, structure: &ProjectStructure) -> String {
    let title =
        facts.manifests.iter().find(|manifest| !manifest.path.contains('/') && manifest.name.is_some());
    let title = title.and_then(|manifest| manifest.name.clone()).unwrap_or_else(|| facts.name.clone());
    let title = if title.is_empty() { "This project".to_owned() } else { title };
    let mut out = format!("# {}\n\n{}\n\n", words(&title), words(&sentence(facts)));
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
