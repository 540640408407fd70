//! `finish`: the end of the task, with a summary for the person.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Runs, Tool};
use crate::arguments::{self, BadArguments, Form};

/// Letters of a summary: some pages.
const SUMMARY_BYTES: usize = 32 * 1024;

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Ends the job. Call it alone, when the task is done and you have seen it work, or when it turns out that it can't be done. The summary is what the person reads: what you made and where it is, how to run it, how you checked it, and what is missing or uncertain. Write it for someone who did not watch, in plain Markdown, as long as it needs to be and no longer.",
    parameters,
    runs: Runs::Session,
};

const FORM: Form = Form {
    tool: "finish",
    members: &[("summary", &["message", "text", "result"])],
    example: r#"{"summary": "The parser now accepts empty lines. All 41 tests pass (`npm test`)."}"#,
};

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": { "summary": { "type": "string" } },
        "required": ["summary"],
    })
}

#[derive(Debug, Deserialize)]
struct Arguments {
    summary: String,
}

/// The summary of a call.
pub(crate) fn read(text: &str) -> Result<String, BadArguments> {
    let Arguments { mut summary } = arguments::read(&FORM, text)?;
    if summary.trim().is_empty() {
        return Err(FORM.refuse("the summary is empty"));
    }
    summary.truncate(summary.floor_char_boundary(SUMMARY_BYTES));
    Ok(summary)
}
