//! A tool on the memory of a job: recall.

use sandyard_api::{ApiError, PassageView, RecallView};
use serde_json::json;

use super::super::answer::{ToolAnswer, readable};
use super::super::arguments::Arguments;
use super::super::call::{ApiCall, CallVerb};
use super::files::escape;
use super::{McpToolContext, ToolEffect, ToolEntry, job_id, output_schema};

/// Passages in one answer, if the client does not say.
const DEFAULT_PASSAGES: u64 = 8;

pub(super) const ENTRIES: &[ToolEntry] = &[ToolEntry {
    name: "recall",
    title: "Recall what a job has seen",
    description: "Finds passages of everything that a job, its agent and people in it have said, run, read and written, also long \
        ago and after the job's end: words of people, answers, whole outputs of commands and code, versions of files. By \
        words and by meaning; each passage says where it stands and was compared with what is stored. With `path` and \
        without `query`, the versions of that file, newest first.",
    effect: ToolEffect::Reads,
    properties: || {
        json!({
            "job_id": job_id(),
            "query": {"type": "string", "description": "A question, words, an identifier or an error message"},
            "k": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many passages; 8 if not given"},
            "scope": {"type": "string", "description": "Only texts of these origins, separated by commas: person, model, call, result, file, cell, note"},
            "path": {"type": "string", "description": "Only texts whose path begins so; without `query`, the file itself"},
            "before": {"type": "integer", "minimum": 1, "description": "Only what is before this entry of the journal"},
            "after": {"type": "integer", "minimum": 0, "description": "Only what is after this entry"},
        })
    },
    required: &["job_id"],
    output: output_schema::<RecallView>,
    run: |context, arguments| Box::pin(recall(context, arguments)),
}];

async fn recall(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let count = arguments.whole("k", 1..=100)?.unwrap_or(DEFAULT_PASSAGES);
    let mut path = format!("/jobs/{id}/recall?k={count}");
    for (name, parameter) in [("query", "q"), ("scope", "scope"), ("path", "path")] {
        if let Some(value) = arguments.text(name)? {
            path.push_str(&format!("&{parameter}={}", escape(&value)));
        }
    }
    for name in ["before", "after"] {
        if let Some(value) = arguments.whole(name, 0..=u64::MAX)? {
            path.push_str(&format!("&{name}={value}"));
        }
    }
    let found: RecallView = context.send(ApiCall::new(CallVerb::Get, path)).await?.view()?;
    if found.passages.is_empty() {
        return Ok(ToolAnswer::of("nothing like it was found").with(&found));
    }
    let texts: Vec<String> = found.passages.iter().map(cited).collect();
    Ok(ToolAnswer::of(readable(&texts.join("\n\n"))).with(&found))
}

/// A passage below the line that says where it stands.
fn cited(passage: &PassageView) -> String {
    let source = &passage.source;
    let entry = source.entry.map_or_else(String::new, |entry| format!("entry {entry}, "));
    let [first, last] = source.lines;
    let seen = if passage.seen > 1 { format!(", seen {} times", passage.seen) } else { String::new() };
    let at = source.at.to_text();
    format!(
        "[{entry}{} {}, lines {first} to {last}, {at}{seen}]\n{}",
        source.origin, source.path, passage.text
    )
}
