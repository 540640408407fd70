//! `pack`: the model says that a piece of work is over, so that its results may become lines.

use sandyard_protocol::JournalEntry;
use serde::Deserialize;
use serde_json::{Value, json};

use super::lanes::CallLane;
use super::{JournalCall, JournalStep, Tool, ToolOutcome, ToolRun};
use crate::arguments::{self, ArgumentForm};

/// Longest note.
const NOTE_BYTES: usize = 4000;

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Puts away the results of earlier steps: a line stands for each of them, and `recall` shows them whole. Call it when a piece of work is done and its output is no longer needed, before you begin the next one; a shorter conversation is quicker and cheaper. `note` is what you want to have before your eyes afterwards: findings, decisions, names of files.",
    parameters,
    lane: |_| CallLane::Alone,
    run: ToolRun::Journal { run: |call| Box::pin(async move { Ok(run(&call)) }) },
};

const FORM: ArgumentForm = ArgumentForm {
    tool: "pack",
    members: &[("note", &["text", "summary"])],
    example: r#"{"note": "The parser is done; its tests are in tests/parser.rs."}"#,
};

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "note": { "type": "string", "description": "What must stay before your eyes." },
        },
    })
}

#[derive(Debug, Deserialize)]
struct PackArguments {
    note: Option<String>,
}

fn run(call: &JournalCall<'_>) -> JournalStep {
    let PackArguments { note } = match arguments::read(&FORM, call.arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let numbers = call.maskable.clone();
    let mut text = match numbers.len() {
        0 => "There is nothing to put away yet.".to_owned(),
        count => format!("A line stands for each of {count} earlier results now."),
    };
    if let Some(note) = note.filter(|note| !note.trim().is_empty()) {
        text.push_str("\nYour note: ");
        text.push_str(&note[..note.floor_char_boundary(NOTE_BYTES)]);
    }
    let entry = (!numbers.is_empty()).then_some(JournalEntry::Packed { numbers });
    JournalStep::Over { entry, outcome: ToolOutcome::text(text) }
}
