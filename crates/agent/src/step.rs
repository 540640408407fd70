//! Steps: the calls of an answer. Each is committed before it runs and after it ran.
//!
//! A call that began before this loop did was cut off: it is told as interrupted, with what is known, and never run again.
//! Calls of the session's own (`plan`, `recall`, `ask`, `finish`) change nothing but the journal, so they simply go on.

use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sandyard_protocol::limits::JOURNAL_ENTRY_BYTES;
use sandyard_protocol::{JournalEntry, ModelPart, ToolCall, WhyAsked};

use crate::conversation::Began;
use crate::desk::DeskError;
use crate::prompt;
use crate::session::Session;
use crate::shape::Shape;
use crate::tools::recall::{self, Wanted};
use crate::tools::{self, Outcome, Runs, ask, finish, lanes, plan};

/// Calls that run at the same time.
const AT_ONCE: usize = 8;
/// Arguments that the note about a step repeats; the answer has them whole.
const ARGUMENT_BYTES: usize = 256 * 1024;
/// Text of a result that is too long for the journal.
const SHORT_TEXT_BYTES: usize = 64 * 1024;
/// What is around the parts of a result in its entry.
const ENTRY_MARGIN: usize = 64 * 1024;

/// Takes the calls of the last answer one step further.
pub(crate) async fn run(session: &mut Session) -> Result<(), DeskError> {
    let calls = session.conversation.calls();
    let cut_off = calls.iter().find(|call| call.began.is_some() && call.ended.is_none());
    if let Some(open) = cut_off {
        let (call, began, asked) = (open.call.clone(), open.began, open.asked);
        return match tools::find(&call.name).map(|tool| tool.runs) {
            Some(Runs::Session) => of_session(session, &call, asked).await,
            _ => interrupted(session, &call, began).await,
        };
    }
    let waiting = || calls.iter().filter(|call| call.began.is_none()).map(|call| &call.call);
    let together = lanes::together(waiting(), AT_ONCE);
    let batch: Vec<ToolCall> = waiting().take(together).cloned().collect();
    for call in &batch {
        session.commit(began(call)).await?;
    }
    match batch.as_slice() {
        [call] if matches!(tools::find(&call.name).map(|tool| tool.runs), Some(Runs::Session)) => {
            of_session(session, call, false).await
        }
        batch => in_machine(session, batch).await,
    }
}

fn began(call: &ToolCall) -> JournalEntry {
    let mut arguments = call.arguments.clone();
    arguments.truncate(arguments.floor_char_boundary(ARGUMENT_BYTES));
    JournalEntry::StepBegan { call: call.id.clone(), name: call.name.clone(), arguments }
}

/// Runs calls at the same time, and writes down each as it ends.
async fn in_machine(session: &mut Session, batch: &[ToolCall]) -> Result<(), DeskError> {
    let mut running: FuturesUnordered<_> = batch
        .iter()
        .map(|call| {
            let began = session.conversation.calls().iter().filter(|open| open.call.id == call.id);
            let step =
                began.filter_map(|open| open.began).map(|began| began.number).next_back().unwrap_or_default();
            let work = tools::find(&call.name).map(|tool| tool.runs);
            let (context, call) = (session.context(step), call.clone());
            async move {
                let started = Instant::now();
                let outcome = match work {
                    Some(Runs::Machine { run, .. }) => run(context, call.arguments.clone()).await,
                    Some(Runs::Session) | None => tools::unknown(&call.name),
                };
                (call, outcome, started.elapsed())
            }
        })
        .collect();
    while let Some((call, outcome, took)) = running.next().await {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        session.commit(ended(&call, outcome, took_ms)).await?;
    }
    Ok(())
}

/// Tells of a call that was cut off, with what is known of it.
async fn interrupted(session: &mut Session, call: &ToolCall, began: Option<Began>) -> Result<(), DeskError> {
    let Some(began) = began else { return Ok(()) };
    let context = session.context(began.number);
    let known = if began.incarnation != session.desk.facts().incarnation {
        prompt::new_machine()
    } else {
        match tools::find(&call.name).map(|tool| tool.runs) {
            Some(Runs::Machine { cut_off, .. }) => cut_off(context).await,
            Some(Runs::Session) | None => String::new(),
        }
    };
    let text = format!("Interrupted: you were restarted while this ran, and it was not run again. {known}");
    session.commit(ended(call, Outcome::interrupted(text), 0)).await
}

/// The calls that are about the job itself.
async fn of_session(session: &mut Session, call: &ToolCall, asked: bool) -> Result<(), DeskError> {
    let outcome = match call.name.as_str() {
        "plan" => match plan::read(&call.arguments) {
            Ok(items) => {
                let words = plan::noted(&items);
                session.commit(JournalEntry::Plan { items }).await?;
                Outcome::text(words)
            }
            Err(error) => error.into(),
        },
        "recall" => match recall::read(&call.arguments) {
            Ok(wanted) => recalled(session, wanted).await?,
            Err(error) => error.into(),
        },
        "ask" if asked => Outcome::text("The person has answered; see below."),
        "ask" => match ask::read(&call.arguments) {
            // The answer comes in its own time; this call goes on then.
            Ok(question) => {
                return session.commit(JournalEntry::Asked { question, why: WhyAsked::Ask }).await;
            }
            Err(error) => error.into(),
        },
        _ => match finish::read(&call.arguments) {
            Ok(_) if fails_beside(session) => Outcome::failed(
                "The job goes on, because another call of the same answer failed. Look at it, then call `finish` alone.",
            ),
            Ok(summary) => return session.commit(JournalEntry::Finished { summary }).await,
            Err(error) => error.into(),
        },
    };
    session.commit(ended(call, outcome, 0)).await
}

fn fails_beside(session: &Session) -> bool {
    session.conversation.calls().iter().any(|call| call.ended.as_ref().is_some_and(|ended| ended.failed))
}

async fn recalled(session: &mut Session, wanted: Wanted) -> Result<Outcome, DeskError> {
    match wanted {
        Wanted::Entry { number, first } => {
            let row = session.desk.entry(number).await?;
            Ok(recall::show(row.as_ref(), number, first))
        }
        Wanted::Words(words) => {
            let mut search = recall::Search::new(words);
            session.desk.read(|row| search.look_at(&row)).await?;
            Ok(search.outcome())
        }
    }
}

/// A result as the journal takes it.
fn ended(call: &ToolCall, outcome: Outcome, took_ms: u64) -> JournalEntry {
    let Outcome { parts, failed, interrupted, files } = outcome;
    JournalEntry::StepEnded { call: call.id.clone(), parts: fit(parts), failed, interrupted, took_ms, files }
}

/// Leaves pictures out, and then text, until the journal takes it.
fn fit(mut parts: Vec<ModelPart>) -> Vec<ModelPart> {
    let size = |parts: &Vec<ModelPart>| serde_json::to_vec(parts).map_or(usize::MAX, |json| json.len());
    while size(&parts) > JOURNAL_ENTRY_BYTES - ENTRY_MARGIN {
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
        let fitted = fit(vec![text(), picture(), picture(), picture()]);
        assert_eq!(fitted[0], text());
        assert!(matches!(fitted[1], ModelPart::Text { .. }) && fitted[3] == picture());
        let fitted = fit(vec![ModelPart::Text { text: "\u{1}".repeat(1024 * 1024) }]);
        assert!(serde_json::to_vec(&fitted).unwrap().len() < JOURNAL_ENTRY_BYTES);
    }
}
