//! `ask`: a question to the person. The job waits until it is answered.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Runs, Tool};
use crate::arguments::{self, BadArguments, Form};

/// Letters of a question.
const QUESTION_BYTES: usize = 4000;

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Asks the person something and waits for the answer, which may take hours. Ask only what you can neither find out nor decide yourself, or before something that can't be undone. Ask one question, with what you would do if you had to choose. Call nothing else in the same answer.",
    parameters,
    runs: Runs::Session,
};

const FORM: Form = Form {
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
struct Arguments {
    question: String,
}

/// The question of a call.
pub(crate) fn read(text: &str) -> Result<String, BadArguments> {
    let Arguments { mut question } = arguments::read(&FORM, text)?;
    if question.trim().is_empty() {
        return Err(FORM.refuse("the question is empty"));
    }
    question.truncate(question.floor_char_boundary(QUESTION_BYTES));
    Ok(question)
}
