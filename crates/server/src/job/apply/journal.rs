//! Applies an entry of a task's journal: the question, the state, the summary, the audit record and the events that follow.
//!
//! The agent's loop is hostile like everything in a sandbox: rows and events hold only bounded pieces of its text.

use sandyard_api::{PlanItemView, ToolEvent};
use sandyard_protocol::{JournalEntry, ModelPart, WhyAsked};
use serde_json::Value;

use super::effects::{Applied, NewEntry, answered, audit, event, move_to};
use crate::audit::{AuditActor, AuditEntry, AuditFacts, StepEndFacts, StepFacts, cut, digest};
use crate::job::change_error::ChangeError;
use crate::job::{JobRow, JobState, OpenQuestion, OpenStep, SpentRow, StoredEvent, TaskRow};

/// Longest question, summary or reason in the status: some pages.
const MAX_STATUS_BYTES: usize = 16 * 1024;
/// Longest arguments or output of a tool in an event: one screen.
const MAX_SHOWN_BYTES: usize = 2000;
/// Longest message of a person in an event.
const MAX_SAID_BYTES: usize = 64 * 1024;
/// Longest name of a call or tool.
const MAX_NAME_BYTES: usize = 100;
/// Open tool calls whose names are remembered; models ask for fewer at once.
const MAX_OPEN_STEPS: usize = 64;
/// Events that the journal of one job may leave. A flood ends there; events of states are not counted.
const MAX_EVENTS: u64 = 100_000;
/// Files of one step, or items of a plan, that events list.
const MAX_LISTED: usize = 100;
/// Files of one step that its audit record lists.
const MAX_RECORDED_FILES: usize = 20;
/// Longest path in an audit record.
const MAX_RECORDED_PATH_BYTES: usize = 500;
/// Bytes that a row of the journal takes beside the entry, so that tiny entries fill a journal too.
const ROW_BYTES: u64 = 64;
/// Longest path in a `file` event: the kernel's PATH_MAX.
const MAX_EVENT_PATH_BYTES: usize = 4096;
/// Longest item of a plan in an event.
const MAX_PLAN_ITEM_BYTES: usize = 500;

impl SpentRow {
    /// Returns the greater of each figure.
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
    row.journal_bytes += text.len() as u64 + ROW_BYTES;
    applied.journal.push(NewEntry {
        number,
        kind: kind(entry),
        at_ms: now_ms,
        incarnation: row.incarnation,
        text,
    });
    let record = record(&task, entry);
    let mut events = consequences(&mut task, entry, now_ms);
    events.truncate(usize::try_from(MAX_EVENTS.saturating_sub(task.told)).unwrap_or(usize::MAX));
    task.told += events.len() as u64;
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
    for happened in &events {
        event(row, happened, now_ms, applied);
    }
    Ok(())
}

/// Returns the kind of an entry in the journal's table.
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

/// Returns the audit record of an entry: names and hashes, not the text. The model gateway records answers, and the use case
/// `reply` records messages of people.
fn record(task: &TaskRow, entry: &JournalEntry) -> Option<AuditEntry> {
    let facts = match entry {
        JournalEntry::StepBegan { call, name, arguments } => {
            let (action, path) = if name == "files" { file_target(arguments) } else { (None, None) };
            AuditFacts::Step(StepFacts {
                call: cut(call, MAX_NAME_BYTES),
                tool: cut(name, MAX_NAME_BYTES),
                bytes: arguments.len(),
                sha256: digest(arguments.as_bytes()),
                action,
                path,
            })
        }
        JournalEntry::StepEnded { call, parts, failed, interrupted, took_ms, files } => {
            let step = task.open_steps.iter().find(|step| step.call == *call);
            let files = files.iter().take(MAX_RECORDED_FILES);
            AuditFacts::StepEnded(StepEndFacts {
                call: cut(call, MAX_NAME_BYTES),
                tool: step.map(|step| step.name.clone()),
                failed: *failed,
                interrupted: *interrupted,
                took_ms: *took_ms,
                files: files.map(|path| cut(path, MAX_RECORDED_PATH_BYTES)).collect(),
                sha256: digest(&serde_json::to_vec(parts).unwrap_or_default()),
            })
        }
        JournalEntry::Asked { question, why } => {
            AuditFacts::Asked { why: *why, sha256: digest(question.as_bytes()) }
        }
        JournalEntry::Finished { summary } => {
            AuditFacts::Finished { done: true, sha256: digest(summary.as_bytes()) }
        }
        JournalEntry::GaveUp { reason } => {
            AuditFacts::Finished { done: false, sha256: digest(reason.as_bytes()) }
        }
        JournalEntry::Task { .. }
        | JournalEntry::Said { .. }
        | JournalEntry::Answer { .. }
        | JournalEntry::Plan { .. }
        | JournalEntry::Nudge { .. }
        | JournalEntry::Packed { .. } => return None,
    };
    Some(AuditEntry::new(AuditActor::Agent, facts))
}

/// Returns action and path from the arguments of the file tool.
fn file_target(arguments: &str) -> (Option<String>, Option<String>) {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let text = |name: &str, max_bytes| Some(cut(arguments.get(name)?.as_str()?, max_bytes));
    (text("action", MAX_NAME_BYTES), text("path", MAX_RECORDED_PATH_BYTES))
}

/// Updates the task's part of the row and returns the events that follow.
fn consequences(task: &mut TaskRow, entry: &JournalEntry, now_ms: i64) -> Vec<StoredEvent> {
    match entry {
        // The model gateway reports an answer's text while it arrives, and its cost when it is complete.
        JournalEntry::Task { .. } | JournalEntry::Answer { .. } | JournalEntry::Packed { .. } => Vec::new(),
        JournalEntry::Said { text, by, budget } => {
            answered(task, now_ms);
            task.budget = budget.or(task.budget);
            vec![StoredEvent::Said { text: cut(text, MAX_SAID_BYTES), by: *by }]
        }
        JournalEntry::StepBegan { call, name, arguments } => {
            let (call, tool) = (cut(call, MAX_NAME_BYTES), cut(name, MAX_NAME_BYTES));
            task.open_steps.truncate(MAX_OPEN_STEPS - 1);
            task.open_steps.insert(0, OpenStep { call: call.clone(), name: tool.clone() });
            vec![StoredEvent::Step { call, tool, arguments: cut(arguments, MAX_SHOWN_BYTES) }]
        }
        JournalEntry::StepEnded { call, parts, failed, interrupted, took_ms, files } => {
            let call = cut(call, MAX_NAME_BYTES);
            let step = task.open_steps.iter().position(|step| step.call == call);
            let tool = step.map(|step| task.open_steps.remove(step).name);
            let (failed, interrupted, took_ms) = (*failed, *interrupted, *took_ms);
            let ended = ToolEvent { call, tool, failed, interrupted, took_ms, output: output(parts) };
            let mut events = vec![StoredEvent::Tool(ended)];
            events.extend(files.iter().take(MAX_LISTED).map(|path| written(path)));
            events.extend(
                pictures(parts).map(|picture| StoredEvent::Screenshot { entry: task.entries, picture }),
            );
            events
        }
        JournalEntry::Plan { items } => {
            let view = |text: &str, state| PlanItemView { text: cut(text, MAX_PLAN_ITEM_BYTES), state };
            let items = items.iter().take(MAX_LISTED).map(|item| view(&item.text, item.state)).collect();
            vec![StoredEvent::Plan { items }]
        }
        JournalEntry::Nudge { text } => vec![StoredEvent::Note { text: cut(text, MAX_SHOWN_BYTES) }],
        JournalEntry::Asked { question, why } => {
            asked(task, question, *why, now_ms);
            Vec::new()
        }
        JournalEntry::Finished { summary } => {
            task.summary = Some(cut(summary, MAX_STATUS_BYTES));
            Vec::new()
        }
        JournalEntry::GaveUp { reason } => {
            task.gave_up = Some(cut(reason, MAX_STATUS_BYTES));
            Vec::new()
        }
    }
}

fn written(path: &str) -> StoredEvent {
    StoredEvent::File { path: cut(path, MAX_EVENT_PATH_BYTES) }
}

fn asked(task: &mut TaskRow, question: &str, why: WhyAsked, now_ms: i64) {
    task.question = Some(OpenQuestion { text: cut(question, MAX_STATUS_BYTES), why, asked_ms: now_ms });
}

/// Returns the beginning of a result's first text.
fn output(parts: &[ModelPart]) -> String {
    let text = parts.iter().find_map(|part| match part {
        ModelPart::Text { text } => Some(cut(text, MAX_SHOWN_BYTES)),
        ModelPart::Png { .. } => None,
    });
    text.unwrap_or_default()
}

/// Returns the places of the pictures among the parts of a result.
fn pictures(parts: &[ModelPart]) -> impl Iterator<Item = u64> {
    let is_picture = |(_, part): &(usize, &ModelPart)| matches!(part, ModelPart::Png { .. });
    parts.iter().enumerate().filter(is_picture).map(|(place, _)| place as u64).take(MAX_LISTED)
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
