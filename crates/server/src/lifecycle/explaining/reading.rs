//! The reader in the guest: it gets itself, the notes about the job, and the start of the workspace as input.

use sandyard_explain::facts::ProjectFacts;
use sandyard_explain::{ExplainedFacts, JobNotes};
use sandyard_sandbox::machine::Machine;
use tokio::io::AsyncReadExt as _;

use super::ExplainError;
use super::budget::FactsBudget;
use crate::lifecycle::guest_scripts::GuestScript;
use crate::lifecycle::start_tree::StartTree;

/// Longest answer, as JSON: some megabytes for a project of a million lines.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;

/// Explains the workspace, with what is different from its start. A start that takes more than half of the time that is left
/// is given up, so that the workspace itself has the other half.
pub(super) async fn read_facts(
    machine: &Machine,
    reader: &'static [u8],
    name: &str,
    notes: &JobNotes,
    start: Option<StartTree>,
    budget: FactsBudget,
) -> Result<ExplainedFacts, ExplainError> {
    if let Some(start) = start {
        match run_reader(machine, reader, name, notes, Some(start), budget.half()).await {
            Ok(explained) => return Ok(explained),
            Err(error) => tracing::debug!(%error, "the start of the workspace could not be explained"),
        }
    }
    run_reader(machine, reader, name, notes, None, budget).await
}

async fn run_reader(
    machine: &Machine,
    reader: &'static [u8],
    name: &str,
    notes: &JobNotes,
    start: Option<StartTree>,
    budget: FactsBudget,
) -> Result<ExplainedFacts, ExplainError> {
    let notes = serde_json::to_vec(notes).map_err(ExplainError::Answer)?;
    let lengths = [reader.len(), notes.len()].map(|length| length.to_string());
    let (tree, start) = match start {
        Some(start) => {
            let (tree, input) = start.into_input();
            (if tree.is_empty() { "files".to_owned() } else { tree }, Some(input))
        }
        None => ("none".to_owned(), None),
    };
    let script = GuestScript {
        text: include_str!("../scripts/explain.sh"),
        arguments: &[&lengths[0], &lengths[1], name, &tree],
        time: budget.left().ok_or(ExplainError::Late)?,
        most_output: MAX_ANSWER_BYTES,
    };
    let mut answer = Vec::new();
    let input = reader.chain(notes.as_slice());
    let ran = match start {
        Some(start) => budget.within(script.run(machine, input.chain(start), &mut answer)).await,
        None => budget.within(script.run(machine, input, &mut answer)).await,
    };
    let ran = ran.ok_or(ExplainError::Late)??;
    if !ran.succeeded() {
        return Err(ExplainError::Reader(ran.words));
    }
    // Megabytes of JSON take milliseconds, which other connections of this thread must not wait for.
    let parsed = tokio::task::spawn_blocking(move || parse(&answer)).await;
    parsed.unwrap_or_else(|panicked| Err(ExplainError::Reader(panicked.to_string())))
}

/// Reads an answer. The job may have put a program of its own in the reader's place.
fn parse(answer: &[u8]) -> Result<ExplainedFacts, ExplainError> {
    let explained: ExplainedFacts = serde_json::from_slice(answer).map_err(ExplainError::Answer)?;
    if names_its_files(&explained.facts) {
        Ok(explained)
    } else {
        Err(ExplainError::Reader("its facts are about files that it does not name".to_owned()))
    }
}

/// True if every fact is about a file of the list: whoever uses a fact looks its file up there.
fn names_its_files(facts: &ProjectFacts) -> bool {
    let uses = facts.uses.iter().flat_map(|one| [one.from, one.to]);
    let mut files = uses
        .chain(facts.libraries.iter().map(|library| library.file))
        .chain(facts.entries.iter().map(|entry| entry.file))
        .chain(facts.routes.iter().map(|route| route.file))
        .chain(facts.stores.iter().map(|store| store.file))
        .chain(facts.marks.iter().map(|mark| mark.file));
    files.all(|file| file < facts.files.len())
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
