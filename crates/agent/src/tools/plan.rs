//! `plan`: replaces the plan, a list of items that people see.

use sandyard_protocol::{JournalEntry, PlanItem, PlanState};
use serde::Deserialize;
use serde_json::{Value, json};

use super::lanes::CallLane;
use super::{JournalCall, JournalStep, Tool, ToolOutcome, ToolRun};
use crate::arguments::{self, ArgumentForm, BadArguments};
use crate::journal::JournalError;

/// Items of a plan; more items are rejected.
const MAX_ITEMS: usize = 50;
/// Bytes of one item; longer items are cut.
const MAX_ITEM_BYTES: usize = 400;

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Writes down what is to do, as a short list that the person sees while you work. Each call replaces the whole list, so send all items every time. Mark one item as `doing` when you begin it and as `done` when you have checked it. Use it for tasks of more than three steps, and change it when you learn something new.",
    parameters,
    lane: |_| CallLane::Alone,
    run: ToolRun::Journal { run: |call| Box::pin(run(call)) },
};

const FORM: ArgumentForm = ArgumentForm {
    tool: "plan",
    members: &[("items", &["plan", "todos", "steps"])],
    example: r#"{"items": [{"text": "Read the tests", "state": "done"}, {"text": "Fix the parser", "state": "doing"}]}"#,
};

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "text": { "type": "string" },
                        "state": { "type": "string", "enum": ["open", "doing", "done"] },
                    },
                    "required": ["text", "state"],
                },
            },
        },
        "required": ["items"],
    })
}

#[derive(Debug, Deserialize)]
struct PlanArguments {
    items: Vec<WrittenItem>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum WrittenItem {
    Text(String),
    Whole {
        #[serde(alias = "content", alias = "step", alias = "title")]
        text: String,
        #[serde(alias = "status")]
        state: Option<WrittenState>,
    },
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenState {
    #[serde(alias = "pending", alias = "todo")]
    Open,
    #[serde(alias = "in_progress")]
    Doing,
    #[serde(alias = "completed", alias = "complete")]
    Done,
}

fn read(text: &str) -> Result<Vec<PlanItem>, BadArguments> {
    let PlanArguments { items } = arguments::read(&FORM, text)?;
    if items.len() > MAX_ITEMS {
        return Err(FORM.refuse(&format!("at most {MAX_ITEMS} items")));
    }
    Ok(items.into_iter().map(WrittenItem::into_plan).collect())
}

async fn run(call: JournalCall<'_>) -> Result<JournalStep, JournalError> {
    Ok(match read(call.arguments) {
        Ok(items) => {
            let outcome = ToolOutcome::text(noted(&items));
            JournalStep::Over { entry: Some(JournalEntry::Plan { items }), outcome }
        }
        Err(error) => error.into(),
    })
}

fn noted(items: &[PlanItem]) -> String {
    let done = items.iter().filter(|item| item.state == PlanState::Done).count();
    format!("Noted: {done} of {} done.", items.len())
}

impl WrittenItem {
    fn into_plan(self) -> PlanItem {
        let (mut text, state) = match self {
            Self::Text(text) => (text, WrittenState::Open),
            Self::Whole { text, state } => (text, state.unwrap_or(WrittenState::Open)),
        };
        text.truncate(text.floor_char_boundary(MAX_ITEM_BYTES));
        let state = match state {
            WrittenState::Open => PlanState::Open,
            WrittenState::Doing => PlanState::Doing,
            WrittenState::Done => PlanState::Done,
        };
        PlanItem { text, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_as_models_write_them() {
        let items = read(
            r#"{"todos": ["a", {"content": "b", "status": "in_progress"}, {"text": "c", "state": "done"}]}"#,
        )
        .unwrap();
        let states: Vec<PlanState> = items.iter().map(|item| item.state).collect();
        assert_eq!(states, [PlanState::Open, PlanState::Doing, PlanState::Done]);
        assert_eq!(noted(&items), "Noted: 1 of 3 done.");
    }
}
