//! What is different from the state that the job began with.

use crate::changes::ProjectChanges;
use crate::facts::JobNotes;
use crate::text::escape::{code_span, place};

/// Files of a list that are named.
const MAX_FILES: usize = 12;

pub(super) fn changes(changes: &ProjectChanges, notes: &JobNotes) -> String {
    let title = if notes.of_job { "What this job changed" } else { "What changed" };
    let mut out = format!("## {title}\n\n![{title}](changes.svg)\n\n");
    let present = |path: &String| place(path, 1);
    out.push_str(&files("Added", &changes.added_files, present));
    out.push_str(&files("Changed", &changes.changed_files, present));
    // A file that is gone has no place to lead to.
    out.push_str(&files("Removed", &changes.removed_files, |path| code_span(path)));
    out.push_str(&uses("Files that use each other now", &changes.added_uses));
    out.push_str(&uses("Uses that are gone", &changes.removed_uses));
    out
}

fn files(title: &str, paths: &[String], written: impl Fn(&String) -> String) -> String {
    listed(title, paths.iter().map(written).collect())
}

fn uses(title: &str, pairs: &[(String, String)]) -> String {
    let written = |(from, to): &(String, String)| format!("{} → {}", code_span(from), code_span(to));
    listed(title, pairs.iter().map(written).collect())
}

fn listed(title: &str, items: Vec<String>) -> String {
    if items.is_empty() {
        return String::new();
    }
    let more = items.len().saturating_sub(MAX_FILES);
    let shown = items[..items.len().min(MAX_FILES)].join(", ");
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("- {title} ({}): {shown}{rest}\n", items.len())
}
