//! A turn: all steps up to the model's next answer. It reads the words of people, informs the model or a person that the loop is
//! stuck, makes room in the window, asks the model, and decides how to continue after a failure.

use std::time::Duration;

use sandyard_protocol::{
    JournalEntry, JournalQuestion, ModelCall, ModelFailure, ModelFailureCode, OnBreach, StopReason, WhyAsked,
};

use tokio::time::Instant;

use crate::digest;
use crate::journal::JournalError;
use crate::model::{self, Answered};
use crate::prompt;
use crate::state::SessionState;
use crate::tools;
use crate::window::{self, RecalledWords};

/// Longest time from the first call that failed to the beginning of an answer; then the task is given up.
const LONGEST_TROUBLE: Duration = Duration::from_secs(600);
/// Delay after the first call that failed, doubled after each further one up to a minute. The host repeats calls by itself; it
/// gives back those of which it had passed on a part, and those for which its own time was up.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Passages that are recalled for one step.
const STEP_PASSAGES: u32 = 4;
/// How often the window is halved for a model that reports a smaller window than the operator configured.
const MAX_SHRINKS: usize = 4;

/// Gets the next answer, or commits the entry that takes its place.
pub(crate) async fn take(state: &mut SessionState) -> Result<(), JournalError> {
    let said = state.journal.new_replies();
    state.apply(said);
    if let Some(entry) = before_answer(state) {
        return state.commit(entry).await;
    }
    for _ in 0..=MAX_SHRINKS {
        make_room(state).await?;
        let Some(failure) = ask_patiently(state).await? else { return Ok(()) };
        if failure.code != ModelFailureCode::ContextTooLong {
            let entry = without_answer(state, failure);
            return state.commit(entry).await;
        }
        state.window = state.window.shrunk();
    }
    let reason =
        "the conversation is longer than the model's window, and nothing more can be left out".to_owned();
    state.commit(JournalEntry::GaveUp { reason }).await
}

/// Asks the model, again and again while the host can't reach it, for as long as that may last. Returns the failure if there is no
/// answer.
async fn ask_patiently(state: &mut SessionState) -> Result<Option<ModelFailure>, JournalError> {
    let (mut deadline, mut wait) = (None, FIRST_RETRY);
    loop {
        let asked_at = Instant::now();
        match ask(state, deadline).await? {
            Some(failure) if failure.code == ModelFailureCode::Unavailable => {
                // Counted from the beginning of the first call that failed: the host may have tried for long.
                let end = *deadline.get_or_insert(asked_at + LONGEST_TROUBLE);
                if Instant::now() + wait >= end {
                    return Ok(Some(failure));
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_RETRY);
            }
            ended => return Ok(ended),
        }
    }
}

/// The entry that must be written before the model is asked, if any.
fn before_answer(state: &SessionState) -> Option<JournalEntry> {
    let conversation = &state.conversation;
    let last = conversation.turns().back()?;
    if conversation.machine() != state.journal.facts().incarnation {
        return Some(JournalEntry::Nudge { text: prompt::new_machine() });
    }
    let stuck = conversation.stuck()?;
    if last.stop == StopReason::Refused {
        let question = format!("The model declines to go on. How should it? Its words: {}", last.text.trim());
        return Some(JournalEntry::Asked { question, why: WhyAsked::Stuck });
    }
    Some(if stuck.was_told {
        JournalEntry::Asked { question: prompt::stuck_question(stuck.sign, &last.text), why: WhyAsked::Stuck }
    } else {
        JournalEntry::Nudge { text: prompt::stuck(stuck, last.stop) }
    })
}

async fn make_room(state: &mut SessionState) -> Result<(), JournalError> {
    let numbers = state.window.pack(&state.conversation, &state.tools, state.correction);
    if numbers.is_empty() {
        return Ok(());
    }
    // Committed before the call: after a crash the next loop must show the model the same conversation.
    state.commit(JournalEntry::Packed { numbers }).await?;
    digest::write(&state.keeper, &state.conversation).await;
    Ok(())
}

/// Asks the model, whose answer must begin before the deadline, if there is one. Returns the failure if there is no answer.
async fn ask(
    state: &mut SessionState,
    deadline: Option<Instant>,
) -> Result<Option<ModelFailure>, JournalError> {
    let recalled = recall_for_step(state).await?;
    let facts = state.journal.facts();
    let (incarnation, limits) = (facts.incarnation, facts.model.clone());
    let call = ModelCall {
        number: state.conversation.last() + 1,
        model: None,
        system: prompt::SYSTEM.to_owned(),
        messages: state.window.messages(&state.conversation, &recalled),
        tools: state.tools.clone(),
        max_tokens: limits.max_output_tokens.min(limits.window_tokens / 2),
        packing: window::context(&state.conversation, &recalled),
    };
    let mut row = match model::ask(&state.keeper, &call, incarnation, deadline).await {
        Answered::Kept(row) => row,
        Answered::Failed(failure) => return Ok(Some(failure)),
    };
    if let JournalEntry::Answer { usage, .. } = &row.entry {
        state.correction.learn(window::estimate(&state.conversation, &state.tools), usage.input);
    }
    // Words of people that the host stored before the answer are applied first: the conversation must have the journal's order.
    let before = state.journal.receive_before(row.number).await?;
    state.apply(before);
    // After a reconnection the journal has delivered the answer already. The number is 0 if the host did not report one.
    if state.conversation.last() < row.number || row.number == 0 {
        row.number = state.conversation.last() + 1;
        state.journal.skip_answer(&row);
        state.conversation.apply(row);
    }
    Ok(None)
}

/// Looks in what the model no longer reads for what it may need now. Nothing while everything is whole.
async fn recall_for_step(state: &mut SessionState) -> Result<Vec<RecalledWords>, JournalError> {
    let masked_until = state.conversation.borders().masked_until;
    let question = state.conversation.present_question();
    if masked_until == 0 || question.is_empty() || state.journal.facts().model.replay {
        return Ok(Vec::new());
    }
    let question = JournalQuestion {
        text: question,
        count: STEP_PASSAGES,
        before: Some(masked_until + 1),
        ..JournalQuestion::default()
    };
    let answer = state.journal.ask(question).await?.unwrap_or_default();
    Ok(RecalledWords::within(state.window.recall_room(), &answer.passages, tools::cited))
}

/// The entry that follows a failed call: a question to a person, or the end of the task.
fn without_answer(state: &SessionState, failure: ModelFailure) -> JournalEntry {
    let ModelFailure { code, message } = failure;
    if code == ModelFailureCode::Budget && state.journal.facts().budget.on_breach == OnBreach::Ask {
        let question = format!("{message} Reply with a higher budget to go on.");
        return JournalEntry::Asked { question, why: WhyAsked::Budget };
    }
    let what = match code {
        ModelFailureCode::Budget => "the budget is used up",
        ModelFailureCode::NotAllowed => "the job may not use this model",
        ModelFailureCode::ContextTooLong => "the conversation is too long for the model",
        ModelFailureCode::Rejected => "the provider of the model refuses the request",
        ModelFailureCode::Credentials => "the provider of the model turns the operator's account away",
        ModelFailureCode::Unavailable => "the model could not be reached for ten minutes",
    };
    JournalEntry::GaveUp { reason: format!("{what}: {message}") }
}
