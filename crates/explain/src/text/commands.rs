//! How to run and test the project.

use crate::facts::{CommandPurpose, JobNotes, ProjectFacts};
use crate::text::escape::{cell_code, code_span};
use crate::text::succeeded::told;

/// Commands of one purpose that are shown.
const MAX_COMMANDS: usize = 6;
/// Commands of the job that are shown.
const MAX_SUCCEEDED: usize = 8;

pub(super) fn commands(facts: &ProjectFacts, notes: &JobNotes) -> String {
    let mut rows: Vec<(CommandPurpose, String, String)> = Vec::new();
    for manifest in &facts.manifests {
        let folder = manifest.path.rsplit_once('/').map(|(folder, _)| folder);
        for command in &manifest.commands {
            let said = match folder {
                Some(folder) if !folder.starts_with('.') => format!("{}, in {}", manifest.kind, folder),
                _ => manifest.kind.clone(),
            };
            rows.push((command.purpose, command.command.clone(), said));
        }
    }
    for entry in &facts.entries {
        if let Some(command) = &entry.command {
            rows.push((CommandPurpose::Run, command.clone(), facts.files[entry.file].path.clone()));
        }
    }
    rows.sort_by_key(|(purpose, _, _)| *purpose);
    let mut seen: Vec<(CommandPurpose, String)> = Vec::new();
    rows.retain(|(purpose, command, _)| {
        let key = (*purpose, command.clone());
        let fresh =
            !seen.contains(&key) && seen.iter().filter(|(known, _)| known == purpose).count() < MAX_COMMANDS;
        if fresh {
            seen.push(key);
        }
        fresh
    });
    let mut succeeded: Vec<&str> = Vec::new();
    for command in notes.succeeded_commands.iter().rev().filter_map(|command| told(command)) {
        if !succeeded.contains(&command) && succeeded.len() < MAX_SUCCEEDED {
            succeeded.push(command);
        }
    }
    succeeded.reverse();
    if rows.is_empty() && succeeded.is_empty() {
        return String::new();
    }
    let mut out = String::from("## How to run and test it\n\n");
    if !rows.is_empty() {
        out.push_str("| to | command | said by |\n|---|---|---|\n");
    }
    for (purpose, command, source) in &rows {
        out.push_str(&format!("| {} | {} | {} |\n", verb(*purpose), cell_code(command), cell_code(source)));
    }
    if !succeeded.is_empty() {
        out.push_str("\nThese commands succeeded in this job, oldest first:\n\n");
        succeeded.iter().for_each(|command| out.push_str(&format!("- {}\n", code_span(command))));
    }
    out
}

fn verb(purpose: CommandPurpose) -> &'static str {
    match purpose {
        CommandPurpose::Install => "install",
        CommandPurpose::Build => "build",
        CommandPurpose::Run => "run",
        CommandPurpose::Test => "test",
        CommandPurpose::Check => "check",
    }
}
