//! A turn: everything up to the model's next answer. What people said meanwhile, a word about circles, room in the window,
//! the question itself, and what to do when there is no answer.

use std::time::Duration;

use sandyard_protocol::{
    JournalEntry, ModelCall, ModelFailure, ModelFailureCode, OnBreach, StopReason, WhyAsked,
};

use crate::desk::DeskError;
use crate::model::{self, Answered};
use crate::prompt;
use crate::session::Session;
use crate::window;

/// Waits for a provider that the host could not reach, one after another; then the task is given up.
const WAITS_S: [u64; 8] = [5, 15, 30, 60, 60, 120, 120, 180];
/// How often the window is halved for a model that says it is smaller than we were told.
const SHRINKS: usize = 4;

/// Gets the next answer, or whatever comes in its place.
pub(crate) async fn take(session: &mut Session) -> Result<(), DeskError> {
    let said = session.desk.said();
    session.apply(said);
    if let Some(entry) = before_answer(session) {
        return session.commit(entry).await;
    }
    let mut waits = WAITS_S.into_iter();
    for _ in 0..=SHRINKS {
        make_room(session).await?;
        let failure = loop {
            match ask(session).await? {
                None => return Ok(()),
                Some(failure) if failure.code == ModelFailureCode::Unavailable => match waits.next() {
                    Some(wait_s) => tokio::time::sleep(Duration::from_secs(wait_s)).await,
                    None => break failure,
                },
                Some(failure) => break failure,
            }
        };
        if failure.code != ModelFailureCode::ContextTooLong {
            let entry = without_answer(session, failure);
            return session.commit(entry).await;
        }
        session.window = session.window.shrunk();
    }
    let reason =
        "the conversation is longer than the model's window, and nothing more can be left out".to_owned();
    session.commit(JournalEntry::GaveUp { reason }).await
}

/// What has to be said before the model is asked.
fn before_answer(session: &Session) -> Option<JournalEntry> {
    let conversation = &session.conversation;
    let last = conversation.turns().back()?;
    if conversation.machine() != session.desk.facts().incarnation {
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

async fn make_room(session: &mut Session) -> Result<(), DeskError> {
    let numbers = session.window.pack(&session.conversation, &session.tools, session.correction);
    if numbers.is_empty() {
        return Ok(());
    }
    session.commit(JournalEntry::Packed { numbers }).await
}

/// Asks the model. Returns why there is no answer.
async fn ask(session: &mut Session) -> Result<Option<ModelFailure>, DeskError> {
    let facts = session.desk.facts();
    let (incarnation, limits) = (facts.incarnation, facts.model.clone());
    let call = ModelCall {
        number: session.conversation.last() + 1,
        model: None,
        system: prompt::SYSTEM.to_owned(),
        messages: session.window.messages(&session.conversation),
        tools: session.tools.clone(),
        max_tokens: limits.max_output_tokens.min(limits.window_tokens / 2),
    };
    let mut row = match model::ask(&session.keeper, &call, incarnation).await {
        Answered::Kept(row) => row,
        Answered::Failed(failure) => return Ok(Some(failure)),
    };
    if let JournalEntry::Answer { usage, .. } = &row.entry {
        session.correction.learn(window::estimate(&session.conversation, &session.tools), usage.input);
    }
    let before = session.desk.up_to(row.number).await?;
    session.apply(before);
    if session.conversation.last() < row.number || row.number == 0 {
        row.number = session.conversation.last() + 1;
        session.desk.told(&row);
        session.conversation.apply(row);
    }
    Ok(None)
}

/// What happens when there is no answer.
fn without_answer(session: &Session, failure: ModelFailure) -> JournalEntry {
    let ModelFailure { code, message } = failure;
    if code == ModelFailureCode::Budget && session.desk.facts().budget.on_breach == OnBreach::Ask {
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
