//! `ask`: asks the person a question. The job waits for the answer.

use sandyard_protocol::{JournalEntry, WhyAsked};
use serde::Deserialize;
use serde_json::{Value, json};

use super::lanes::CallLane;
use super::{JournalCall, JournalStep, Tool, ToolOutcome, ToolRun};
use crate::arguments::{self, ArgumentForm, BadArguments};
use crate::journal::JournalError;

/// Bytes of a question; a longer one is cut.
const MAX_QUESTION_BYTES: usize = 4000;

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Asks the person something and waits for the answer, which may take hours. Ask only what you can neither find out nor decide yourself, or before something that can't be undone. Ask one question, with what you would do if you had to choose. Call nothing else in the same answer.",
    parameters,
    lane: |_| CallLane::Alone,
    run: ToolRun::Journal { run: |call| Box::pin(run(call)) },
};

const FORM: ArgumentForm = ArgumentForm {
    tool: "ask",
    members: &[("question", &["text", "message"])],
    example: r#"{"question": "Should old entries be deleted or archived? I would archive them."}"#,
};

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": { "question": { "type": "string" } },
        "required": ["question"],
    })
}

#[derive(Debug, Deserialize)]
struct AskArguments {
    question: String,
}

async fn run(call: JournalCall<'_>) -> Result<JournalStep, JournalError> {
    if call.is_answered {
        return Ok(ToolOutcome::text("The person has answered; see below.").into());
    }
    Ok(match read(call.arguments) {
        // The call stays open until the person answers, and is then run again with `is_answered`.
        Ok(question) => JournalStep::Open(JournalEntry::Asked { question, why: WhyAsked::Ask }),
        Err(error) => error.into(),
    })
}

fn read(text: &str) -> Result<String, BadArguments> {
    let AskArguments { mut question } = arguments::read(&FORM, text)?;
    if question.trim().is_empty() {
        return Err(FORM.refuse("the question is empty"));
    }
    question.truncate(question.floor_char_boundary(MAX_QUESTION_BYTES));
    Ok(question)
}
