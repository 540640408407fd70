//! What an entry of a task's journal changes beside the journal: the question and the state, the summary, and events.
//!
//! The loop is hostile like everything in a sandbox: of what it writes, only bounded pieces get into rows and events.

use sandyard_protocol::{JournalEntry, ModelPart, Speaker, WhyAsked};
use serde_json::{Value, json};

use super::{Applied, ChangeError, NewEntry, audit, event, move_to};
use crate::audit::{Actor, Entry, Kind, digest};
use crate::job::{JobRow, JobState, OpenStep, Question, SpentRow, TaskRow};

/// A question or a summary in the status: some pages.
const STATUS_BYTES: usize = 16 * 1024;
/// Arguments or output of a tool in an event: what fits a screen.
const SHOWN_BYTES: usize = 2000;
/// Words of a person in an event.
const SAID_BYTES: usize = 64 * 1024;
/// Names of calls and tools.
const NAME_BYTES: usize = 100;
/// Tool calls at once that are told apart; models ask for fewer.
const OPEN_STEPS: usize = 64;
/// Events that the journal of one job leaves: a flood ends there, states are told for ever.
const EVENTS: u64 = 100_000;
/// Files of one step, or things to do, that are told one by one.
const LISTED: usize = 100;
/// Files of one step in its audit, and of each path so much.
const RECORDED_FILES: usize = 20;
const PATH_BYTES: usize = 500;

impl SpentRow {
    /// The greater of each.
    pub(super) fn most(self, other: Self) -> Self {
        Self {
            steps: self.steps.max(other.steps),
            tokens_in: self.tokens_in.max(other.tokens_in),
            tokens_out: self.tokens_out.max(other.tokens_out),
            money: self.money.max(other.money),
        }
    }
}

/// Adds an entry to the journal of a task.
pub(crate) fn journal(
    row: &mut JobRow,
    entry: &JournalEntry,
    now_ms: i64,
    applied: &mut Applied,
) -> Result<(), ChangeError> {
    let damaged = ChangeError::Damaged { what: "task" };
    let mut task = row.task.take().ok_or(damaged)?;
    task.entries += 1;
    let number = task.entries;
    let text = serde_json::to_string(entry).map_err(|_| ChangeError::Damaged { what: "journal entry" })?;
    row.journal_bytes += text.len() as u64;
    applied.journal.push(NewEntry {
        number,
        kind: kind(entry),
        at_ms: now_ms,
        incarnation: row.incarnation,
        text,
    });
    let record = record(&task, entry);
    let mut told = consequences(&mut task, entry, now_ms);
    told.truncate(usize::try_from(EVENTS.saturating_sub(task.told)).unwrap_or(usize::MAX));
    task.told += told.len() as u64;
    row.task = Some(task);
    if let Some(record) = record {
        audit(row, &record, now_ms, applied);
    }
    match (entry, row.state) {
        (JournalEntry::Asked { .. }, JobState::Running) => {
            move_to(row, JobState::Waiting, None, now_ms, applied)?;
        }
        (JournalEntry::Said { .. }, JobState::Waiting) => {
            move_to(row, JobState::Running, None, now_ms, applied)?;
        }
        _ => {}
    }
    for (kind, data) in told {
        event(row, kind, data, now_ms, applied);
    }
    Ok(())
}

/// The name of an entry in the table.
fn kind(entry: &JournalEntry) -> &'static str {
    match entry {
        JournalEntry::Task { .. } => "task",
        JournalEntry::Said { .. } => "said",
        JournalEntry::Answer { .. } => "answer",
        JournalEntry::StepBegan { .. } => "step_began",
        JournalEntry::StepEnded { .. } => "step_ended",
        JournalEntry::Plan { .. } => "plan",
        JournalEntry::Nudge { .. } => "nudge",
        JournalEntry::Asked { .. } => "asked",
        JournalEntry::Packed { .. } => "packed",
        JournalEntry::Finished { .. } => "finished",
        JournalEntry::GaveUp { .. } => "gave_up",
    }
}

/// What the audit holds of an entry: names and hashes, not the words. Answers are recorded by whoever paid for them, and what
/// people say by whoever heard them.
fn record(task: &TaskRow, entry: &JournalEntry) -> Option<Entry> {
    let of_agent = |kind, facts| Some(Entry::new(Actor::Agent, kind, facts));
    match entry {
        JournalEntry::StepBegan { call, name, arguments } => {
            let mut facts = json!({
                "call": cut(call, NAME_BYTES), "tool": cut(name, NAME_BYTES), "bytes": arguments.len(),
                "sha256": digest(arguments.as_bytes()),
            });
            if name == "files"
                && let (Some(about), Some(facts)) = (file_facts(arguments), facts.as_object_mut())
            {
                facts.extend(about);
            }
            of_agent(Kind::Step, facts)
        }
        JournalEntry::StepEnded { call, parts, failed, interrupted, took_ms, files } => {
            let tool = task.open_steps.iter().find(|step| step.call == *call).map(|step| step.name.as_str());
            let files: Vec<String> =
                files.iter().take(RECORDED_FILES).map(|path| cut(path, PATH_BYTES)).collect();
            let result = serde_json::to_vec(parts).unwrap_or_default();
            let facts = json!({
                "call": cut(call, NAME_BYTES), "tool": tool, "failed": failed, "interrupted": interrupted,
                "took_ms": took_ms, "files": files, "sha256": digest(&result),
            });
            of_agent(Kind::StepEnded, facts)
        }
        JournalEntry::Asked { question, why } => {
            of_agent(Kind::Asked, json!({ "why": why, "sha256": digest(question.as_bytes()) }))
        }
        JournalEntry::Finished { summary } => {
            of_agent(Kind::Finished, json!({ "done": true, "sha256": digest(summary.as_bytes()) }))
        }
        JournalEntry::GaveUp { reason } => {
            of_agent(Kind::Finished, json!({ "done": false, "sha256": digest(reason.as_bytes()) }))
        }
        JournalEntry::Task { .. }
        | JournalEntry::Said { .. }
        | JournalEntry::Answer { .. }
        | JournalEntry::Plan { .. }
        | JournalEntry::Nudge { .. }
        | JournalEntry::Packed { .. } => None,
    }
}

/// Which file a call of the file tool is about, and what it does with it.
fn file_facts(arguments: &str) -> Option<serde_json::Map<String, Value>> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let of = |name: &str, bytes| Some((name.to_owned(), json!(cut(arguments.get(name)?.as_str()?, bytes))));
    Some([of("action", NAME_BYTES), of("path", PATH_BYTES)].into_iter().flatten().collect())
}

/// Changes what the row knows of the task, and says which events that leaves.
fn consequences(task: &mut TaskRow, entry: &JournalEntry, now_ms: i64) -> Vec<(&'static str, Value)> {
    let number = task.entries;
    match entry {
        // What an answer says is told while it comes, and what it took by whoever settles it.
        JournalEntry::Task { .. } | JournalEntry::Answer { .. } | JournalEntry::Packed { .. } => Vec::new(),
        JournalEntry::Said { text, by, budget } => {
            answered(task, now_ms);
            task.budget = budget.or(task.budget);
            let by = if *by == Speaker::Person { "person" } else { "host" };
            vec![("said", json!({ "text": cut(text, SAID_BYTES), "by": by }))]
        }
        JournalEntry::StepBegan { call, name, arguments } => {
            let (call, name) = (cut(call, NAME_BYTES), cut(name, NAME_BYTES));
            let data = json!({ "call": call, "tool": name, "arguments": cut(arguments, SHOWN_BYTES) });
            task.open_steps.truncate(OPEN_STEPS - 1);
            task.open_steps.insert(0, OpenStep { call, name });
            vec![("step", data)]
        }
        JournalEntry::StepEnded { call, parts, failed, interrupted, took_ms, files } => {
            let call = cut(call, NAME_BYTES);
            let step = task.open_steps.iter().position(|step| step.call == call);
            let tool = step.map(|step| task.open_steps.remove(step).name);
            let mut told = vec![(
                "tool",
                json!({
                    "call": call, "tool": tool, "failed": failed, "interrupted": interrupted, "took_ms": took_ms,
                    "output": output(parts),
                }),
            )];
            told.extend(files.iter().take(LISTED).map(|path| ("file", json!({ "path": cut(path, 4096) }))));
            told.extend(
                pictures(parts).map(|place| ("screenshot", json!({ "entry": number, "picture": place }))),
            );
            told
        }
        JournalEntry::Plan { items } => {
            let items: Vec<Value> = items
                .iter()
                .take(LISTED)
                .map(|item| json!({ "text": cut(&item.text, 500), "state": item.state }))
                .collect();
            vec![("plan", json!({ "items": items }))]
        }
        JournalEntry::Nudge { text } => vec![("note", json!({ "text": cut(text, SHOWN_BYTES) }))],
        JournalEntry::Asked { question, why } => {
            asked(task, question, *why, now_ms);
            Vec::new()
        }
        JournalEntry::Finished { summary } => {
            task.summary = Some(cut(summary, STATUS_BYTES));
            Vec::new()
        }
        JournalEntry::GaveUp { reason } => {
            task.gave_up = Some(cut(reason, STATUS_BYTES));
            Vec::new()
        }
    }
}

fn asked(task: &mut TaskRow, question: &str, why: WhyAsked, now_ms: i64) {
    task.question = Some(Question { text: cut(question, STATUS_BYTES), why, asked_ms: now_ms });
}

/// Whatever was asked is no longer asked.
pub(super) fn answered(task: &mut TaskRow, now_ms: i64) {
    if let Some(question) = task.question.take() {
        task.waited_ms += u64::try_from(now_ms - question.asked_ms).unwrap_or(0);
    }
}

/// The words of a result, in short.
fn output(parts: &[ModelPart]) -> String {
    let words = parts.iter().find_map(|part| match part {
        ModelPart::Text { text } => Some(cut(text, SHOWN_BYTES)),
        ModelPart::Png { .. } => None,
    });
    words.unwrap_or_default()
}

/// Places of the pictures among the parts of a result.
fn pictures(parts: &[ModelPart]) -> impl Iterator<Item = usize> {
    let is_picture = |(_, part): &(usize, &ModelPart)| matches!(part, ModelPart::Png { .. });
    parts.iter().enumerate().filter(is_picture).map(|(place, _)| place).take(LISTED)
}

fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes)])
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
