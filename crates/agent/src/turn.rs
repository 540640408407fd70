//! A turn: all steps up to the model's next answer. It reads the words of people, informs the model or a person that the loop is
//! stuck, makes room in the window, asks the model, and decides how to continue after a failure.

use std::time::Duration;

use sandyard_protocol::{
    JournalEntry, JournalQuestion, ModelCall, ModelFailure, ModelFailureCode, OnBreach, StopReason, WhyAsked,
};

use crate::digest;
use crate::journal::JournalError;
use crate::model::{self, Answered};
use crate::prompt;
use crate::state::SessionState;
use crate::tools;
use crate::window::{self, RecalledWords};

/// Delays between attempts while the host can't reach the provider: ten minutes together, then the task is given up.
const RETRY_DELAYS_S: [u64; 8] = [5, 15, 30, 60, 60, 120, 120, 180];
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
    let mut waits = RETRY_DELAYS_S.into_iter();
    for _ in 0..=MAX_SHRINKS {
        make_room(state).await?;
        let failure = loop {
            match ask(state).await? {
                None => return Ok(()),
                Some(failure) if failure.code == ModelFailureCode::Unavailable => match waits.next() {
                    Some(wait_s) => tokio::time::sleep(Duration::from_secs(wait_s)).await,
                    None => break failure,
                },
                Some(failure) => break failure,
            }
        };
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

/// Asks the model. Returns the failure if there is no answer.
async fn ask(state: &mut SessionState) -> Result<Option<ModelFailure>, JournalError> {
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
    let mut row = match model::ask(&state.keeper, &call, incarnation).await {
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
        ModelFailureCode::Credentials => "the provider of the model does not accept the key",
        ModelFailureCode::Unavailable => "the model could not be reached for ten minutes",
    };
    JournalEntry::GaveUp { reason: format!("{what}: {message}") }
}
