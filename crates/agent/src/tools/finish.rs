//! `finish`: ends the task with a summary for the person.

use sandyard_protocol::JournalEntry;
use serde::Deserialize;
use serde_json::{Value, json};

use super::lanes::CallLane;
use super::{JournalCall, JournalStep, Tool, ToolOutcome, ToolRun};
use crate::arguments::{self, ArgumentForm, BadArguments};
use crate::journal::JournalError;

/// Bytes of a summary, some pages; a longer one is cut.
const MAX_SUMMARY_BYTES: usize = 32 * 1024;

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Ends the job. Call it alone, when the task is done and you have seen it work, or when it turns out that it can't be done. The summary is what the person reads: what you made and where it is, how to run it, how you checked it, and what is missing or uncertain. Write it for someone who did not watch, in plain Markdown, as long as it needs to be and no longer.",
    parameters,
    lane: |_| CallLane::Alone,
    run: ToolRun::Journal { run: |call| Box::pin(run(call)) },
};

const FORM: ArgumentForm = ArgumentForm {
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
struct FinishArguments {
    summary: String,
}

async fn run(call: JournalCall<'_>) -> Result<JournalStep, JournalError> {
    Ok(match read(call.arguments) {
        Ok(_) if call.has_failed_sibling => ToolOutcome::failed(
            "The job goes on, because another call of the same answer failed. Look at it, then call `finish` alone.",
        )
        .into(),
        Ok(summary) => JournalStep::Open(JournalEntry::Finished { summary }),
        Err(error) => error.into(),
    })
}

fn read(text: &str) -> Result<String, BadArguments> {
    let FinishArguments { mut summary } = arguments::read(&FORM, text)?;
    if summary.trim().is_empty() {
        return Err(FORM.refuse("the summary is empty"));
    }
    summary.truncate(summary.floor_char_boundary(MAX_SUMMARY_BYTES));
    Ok(summary)
}
