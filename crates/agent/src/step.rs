//! Steps: the tool calls of an answer. Each call is committed to the journal before it runs and after it ran.
//!
//! A call that started before this loop did was cut off: it is reported as interrupted, with what is known about it, and never
//! run again. Calls that only use the journal (`plan`, `recall`, `ask`, `finish`) change nothing else, so they simply run again.

use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sandyard_protocol::limits::JOURNAL_ENTRY_BYTES;
use sandyard_protocol::{JournalEntry, ModelPart, ToolCall};

use crate::conversation::CallStart;
use crate::journal::JournalError;
use crate::prompt;
use crate::shape::Shape;
use crate::state::SessionState;
use crate::tools::{self, JournalCall, JournalRun, JournalStep, ToolContext, ToolOutcome, ToolRun};

/// Calls that run at the same time.
const MAX_PARALLEL_CALLS: usize = 8;
/// The newest turns, whose results stay whole when the model asks for packing.
const PACKED_TURNS: usize = 2;
/// Bytes of the arguments that a `StepBegan` entry repeats; the answer has them whole.
const MAX_ARGUMENT_BYTES: usize = 256 * 1024;
/// Bytes that are left of a text in a result that is too long for the journal.
const SHORT_TEXT_BYTES: usize = 64 * 1024;
/// Room in an entry for everything beside the parts of a result.
const ENTRY_MARGIN_BYTES: usize = 64 * 1024;

/// Runs the next calls of the last answer.
pub(crate) async fn run(state: &mut SessionState) -> Result<(), JournalError> {
    let calls = state.conversation.calls();
    // A call that began and did not end is one of an earlier loop: this one ends all calls that it begins.
    let cut_off = calls.iter().find(|call| call.began.is_some() && call.ended.is_none());
    if let Some(open) = cut_off {
        let (call, began, asked) = (open.call.clone(), open.began, open.asked);
        return match tools::run_of(&call.name) {
            Some(ToolRun::Journal { run }) => run_on_journal(state, run, &call, asked).await,
            _ => report_interrupted(state, &call, began).await,
        };
    }
    let waiting = || calls.iter().filter(|call| call.began.is_none()).map(|call| &call.call);
    let together = tools::together(waiting(), MAX_PARALLEL_CALLS);
    let batch: Vec<ToolCall> = waiting().take(together).cloned().collect();
    // All calls of the batch are durable before any of them runs: after a crash none of them is run a second time.
    for call in &batch {
        state.commit(step_began(call)).await?;
    }
    match batch.as_slice() {
        [call] if let Some(ToolRun::Journal { run }) = tools::run_of(&call.name) => {
            run_on_journal(state, run, call, false).await
        }
        batch => run_in_machine(state, batch).await,
    }
}

fn step_began(call: &ToolCall) -> JournalEntry {
    let mut arguments = call.arguments.clone();
    arguments.truncate(arguments.floor_char_boundary(MAX_ARGUMENT_BYTES));
    JournalEntry::StepBegan { call: call.id.clone(), name: call.name.clone(), arguments }
}

/// The inputs of a tool in the step of this journal number.
fn tool_context(state: &SessionState, step: u64) -> ToolContext {
    ToolContext { keeper: state.keeper.clone(), step, positions: state.positions.clone() }
}

/// Runs calls at the same time, and commits each result as its call ends.
async fn run_in_machine(state: &mut SessionState, batch: &[ToolCall]) -> Result<(), JournalError> {
    let mut running: FuturesUnordered<_> = batch
        .iter()
        .map(|call| {
            let began = state.conversation.calls().iter().filter(|open| open.call.id == call.id);
            let step =
                began.filter_map(|open| open.began).map(|began| began.number).next_back().unwrap_or_default();
            let (context, call) = (tool_context(state, step), call.clone());
            async move {
                let started = Instant::now();
                let outcome = match tools::run_of(&call.name) {
                    Some(ToolRun::Machine { run, .. }) => run(context, call.arguments.clone()).await,
                    // Calls that use the journal run alone, see `CallLane::Alone`.
                    Some(ToolRun::Journal { .. }) | None => tools::unknown(&call.name),
                };
                (call, outcome, started.elapsed())
            }
        })
        .collect();
    // Each result is committed as it comes: a crash loses the results of the calls that still run, not of those that ended.
    while let Some((call, outcome, took)) = running.next().await {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        end_step(state, &call, outcome, took_ms).await?;
    }
    Ok(())
}

/// Ends a call that was cut off, with the facts that are known about it.
async fn report_interrupted(
    state: &mut SessionState,
    call: &ToolCall,
    began: Option<CallStart>,
) -> Result<(), JournalError> {
    let Some(began) = began else { return Ok(()) };
    let context = tool_context(state, began.number);
    let known = if began.incarnation != state.journal.facts().incarnation {
        prompt::new_machine()
    } else {
        match tools::run_of(&call.name) {
            Some(ToolRun::Machine { after_restart, .. }) => after_restart(context).await,
            Some(ToolRun::Journal { .. }) | None => String::new(),
        }
    };
    let text = format!("Interrupted: you were restarted while this ran, and it was not run again. {known}");
    end_step(state, call, ToolOutcome::interrupted(text), 0).await
}

/// Runs a call that uses nothing but the journal.
async fn run_on_journal(
    state: &mut SessionState,
    run: JournalRun,
    call: &ToolCall,
    is_answered: bool,
) -> Result<(), JournalError> {
    let has_failed_sibling =
        state.conversation.calls().iter().any(|call| call.ended.as_ref().is_some_and(|ended| ended.failed));
    let maskable = state.conversation.maskable(PACKED_TURNS);
    let journal = &mut state.journal;
    let arguments = &call.arguments;
    let step = run(JournalCall { arguments, is_answered, has_failed_sibling, maskable, journal });
    match step.await? {
        JournalStep::Open(entry) => state.commit(entry).await,
        JournalStep::Over { entry, outcome } => {
            if let Some(entry) = entry {
                state.commit(entry).await?;
            }
            end_step(state, call, outcome, 0).await
        }
    }
}

/// Commits a result, with the texts that are kept behind it.
async fn end_step(
    state: &mut SessionState,
    call: &ToolCall,
    outcome: ToolOutcome,
    took_ms: u64,
) -> Result<(), JournalError> {
    let ToolOutcome { parts, failed, interrupted, files, kept } = outcome;
    let parts = fit_entry(parts);
    let entry = JournalEntry::StepEnded { call: call.id.clone(), parts, failed, interrupted, took_ms, files };
    state.commit_with(entry, kept).await
}

/// Leaves out pictures, and then text, until the result fits into an entry of the journal.
fn fit_entry(mut parts: Vec<ModelPart>) -> Vec<ModelPart> {
    let size = |parts: &Vec<ModelPart>| serde_json::to_vec(parts).map_or(usize::MAX, |json| json.len());
    while size(&parts) > JOURNAL_ENTRY_BYTES - ENTRY_MARGIN_BYTES {
        let picture = parts.iter().position(|part| matches!(part, ModelPart::Png { .. }));
        let Some(picture) = picture else {
            for part in &mut parts {
                if let ModelPart::Text { text } = part {
                    *text = Shape::output(SHORT_TEXT_BYTES).cut(text, "");
                }
            }
            break;
        };
        parts[picture] = ModelPart::Text { text: "(A picture that was too large.)".into() };
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_too_large_loses_pictures_first() {
        let picture = || ModelPart::Png { base64: "x".repeat(1536 * 1024) };
        let text = || ModelPart::Text { text: "words".into() };
        let fitted = fit_entry(vec![text(), picture(), picture(), picture()]);
        assert_eq!(fitted[0], text());
        assert!(matches!(fitted[1], ModelPart::Text { .. }) && fitted[3] == picture());
        let fitted = fit_entry(vec![ModelPart::Text { text: "\u{1}".repeat(1024 * 1024) }]);
        assert!(serde_json::to_vec(&fitted).unwrap().len() < JOURNAL_ENTRY_BYTES);
    }
}
