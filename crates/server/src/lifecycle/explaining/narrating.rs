//! Words of a task's own model on the facts of its result.
//!
//! The call goes through the job's model gateway, so it has the job's model, budget and audit. What the model says is checked
//! against the facts; what fails is asked for once more, then dropped. Whatever goes wrong or comes late leaves the explanation
//! as the facts made it.

use sandyard_explain::claims::{ModelClaim, VerifiedClaim, check_claims};
use sandyard_explain::facts::ProjectFacts;
use sandyard_explain::narration::{
    NARRATION_SYSTEM, add_prose, narration_brief, read_claims, repair_request,
};
use sandyard_pipe::{Frame, FrameLimits, Framed};
use sandyard_protocol::{ModelCall, ModelEvent, ModelMessage, ModelPart, limits};

use super::DrawnExplanation;
use crate::gateways::model::ModelGateway;
use crate::job::{Change, JobRow, JobState, StoredEvent};
use crate::lifecycle::owner::JobOwner;
use crate::lifecycle::task_gateways::{open_side_gateway, side_changes};
use crate::store::{StoreError, StoredRequest};

/// A result with less code is read faster than words about it.
const LEAST_LINES: u64 = 40;
/// Longest answer of the model, in tokens.
const MAX_ANSWER_TOKENS: u32 = 3000;
/// Bytes between the gateway and this side of it.
const BUFFER_BYTES: usize = 64 * 1024;
/// Frame limits of the agent's side.
const FRAME_LIMITS: FrameLimits = FrameLimits {
    message_bytes: limits::MODEL_EVENT_BYTES,
    sent_message_bytes: limits::MODEL_CALL_BYTES,
    data_bytes: 0,
};

/// What came of asking.
#[derive(Debug, Default)]
struct Narration {
    verified: Vec<VerifiedClaim>,
    dropped: usize,
}

impl JobOwner {
    /// Adds words of the task's model to an explanation. Only failures of the store are errors.
    pub(super) async fn narrate(
        &self,
        row: &mut JobRow,
        request: &StoredRequest,
        drawn: &mut DrawnExplanation,
    ) -> Result<(), StoreError> {
        let time = self.context.config.explain_words;
        let finished = row.task.is_some() && row.outcome == Some(JobState::Succeeded);
        let summary = &drawn.stored.explanation.summary;
        if time.is_zero() || !finished || summary.lines < LEAST_LINES {
            return Ok(());
        }
        let Some((gateway, mut told)) = open_side_gateway(&self.context, &request.job, row) else {
            return Ok(());
        };
        let text = format!("the model describes the result, for at most {} s", time.as_secs());
        *row = self.context.commit(row, vec![Change::Event(StoredEvent::Note { text })]).await?;
        let brief = narration_brief(&drawn.stored.explanation, &drawn.facts);
        let asking = ask(&gateway, &brief, &drawn.facts);
        let narration = tokio::time::timeout(time, asking).await;
        let mut changes = Vec::new();
        // A call that was cut off has told its cost when it was dropped.
        while let Ok(report) = told.try_recv() {
            changes.extend(side_changes(report));
        }
        let narration = narration.unwrap_or(None);
        changes.push(Change::Event(StoredEvent::Note { text: told_of(narration.as_ref()) }));
        *row = self.context.commit(row, changes).await?;
        if let Some(narration) = narration {
            add_prose(&mut drawn.stored.explanation, narration.verified);
        }
        Ok(())
    }
}

fn told_of(narration: Option<&Narration>) -> String {
    match narration {
        Some(Narration { verified, dropped }) => format!(
            "{} sentences of the model are in the explanation, each with a place that proves it; {dropped} were dropped",
            verified.len()
        ),
        None => "the explanation is made of facts alone: the model gave no usable answer in time".to_owned(),
    }
}

/// Asks for claims, and once more for those that fail. `None` if there is no usable answer at all.
async fn ask(gateway: &ModelGateway, brief: &str, facts: &ProjectFacts) -> Option<Narration> {
    let mut messages = vec![said(brief)];
    let answer = call(gateway, 1, messages.clone()).await?;
    let claims = read_claims(&answer);
    let first = claims.as_deref().map(|claims| check_claims(facts, claims)).unwrap_or_default();
    let request = match &claims {
        Some(claims) if first.dropped.is_empty() && !claims.is_empty() => None,
        Some(claims) => Some(repair_request(claims, &first.dropped)),
        None => {
            Some("That is not JSON of the form that was asked for. Answer with that JSON only.".to_owned())
        }
    };
    let mut narration = Narration { verified: first.verified, dropped: first.dropped.len() };
    if let Some(request) = request {
        messages.push(ModelMessage::Assistant { text: answer, calls: Vec::new() });
        messages.push(said(&request));
        // Without a second answer the verified part of the first one stays.
        let repaired: Vec<ModelClaim> =
            call(gateway, 2, messages).await.as_deref().and_then(read_claims).unwrap_or_default();
        let second = check_claims(facts, &repaired);
        narration.dropped = narration.dropped.saturating_sub(second.verified.len());
        narration.verified.extend(second.verified);
    }
    (!narration.verified.is_empty()).then_some(narration)
}

fn said(text: &str) -> ModelMessage {
    ModelMessage::User { parts: vec![ModelPart::Text { text: text.to_owned() }] }
}

/// One call through the gateway, as the agent would make it. `None` if it fails.
async fn call(gateway: &ModelGateway, number: u64, messages: Vec<ModelMessage>) -> Option<String> {
    let call = ModelCall {
        number,
        model: None,
        system: NARRATION_SYSTEM.to_owned(),
        messages,
        tools: Vec::new(),
        max_tokens: MAX_ANSWER_TOKENS,
        packing: Vec::new(),
    };
    let (near, far) = tokio::io::duplex(BUFFER_BYTES);
    let asking = async move {
        let (mut receiver, mut sender) = Framed::new(near, FRAME_LIMITS).split();
        sender.send_message(&call).await.ok()?;
        let mut answer = String::new();
        loop {
            let Ok(Some(Frame::Message(json))) = receiver.receive().await else { return None };
            match serde_json::from_slice(&json).ok()? {
                ModelEvent::Text { text } => answer.push_str(&text),
                ModelEvent::Done { .. } => return Some(answer),
                ModelEvent::Failed(_) => return None,
                ModelEvent::Call(_) | ModelEvent::Kept { .. } => {}
            }
        }
    };
    // The gateway ends its side with the last event; the answer is complete then.
    let (answer, ()) = tokio::join!(asking, gateway.serve(far));
    answer
}

#[cfg(test)]
#[path = "narrating_tests.rs"]
mod tests;
