//! One call of the model, repeated with the same journal number until the host answers. The host stores each answer under its
//! number and sends a stored answer again, so a repeated call does not reach the provider twice.

use std::time::Duration;

use sandyard_pipe::FrameError;
use sandyard_protocol::{
    JournalEntry, JournalRow, ModelCall, ModelEvent, ModelFailure, ModelFailureCode, StopReason, ToolCall,
};
use tokio::time::{Instant, timeout_at};

use crate::keeper::KeeperClient;

/// Delay between two attempts after the connection to the host was lost.
const MODEL_RETRY: Duration = Duration::from_millis(500);

/// The host's reply to a call.
#[derive(Debug)]
pub(crate) enum Answered {
    /// The answer, as the journal has it.
    Kept(JournalRow),
    /// There is no answer.
    Failed(ModelFailure),
}

/// Asks the model. Waits for the host for as long as it takes, and for the beginning of the answer until the deadline.
pub(crate) async fn ask(
    keeper: &KeeperClient,
    call: &ModelCall,
    incarnation: u32,
    deadline: Option<Instant>,
) -> Answered {
    loop {
        if let Ok(answered) = try_ask(keeper, call, incarnation, deadline).await {
            return answered;
        }
        tokio::time::sleep(MODEL_RETRY).await;
    }
}

async fn try_ask(
    keeper: &KeeperClient,
    call: &ModelCall,
    incarnation: u32,
    deadline: Option<Instant>,
) -> Result<Answered, FrameError> {
    let mut stream = keeper.model().await?;
    stream.send_message(call).await?;
    let (mut text, mut calls, mut number): (String, Vec<ToolCall>, u64) = Default::default();
    let mut begins_by = deadline;
    loop {
        let received = match begins_by.take() {
            Some(deadline) => match timeout_at(deadline, stream.receive_message()).await {
                Ok(received) => received,
                // Dropping the stream calls the question off.
                Err(_) => return Ok(Answered::Failed(too_late())),
            },
            None => stream.receive_message().await,
        };
        match received? {
            ModelEvent::Text { text: more } => text.push_str(&more),
            ModelEvent::Call(call) => calls.push(call),
            ModelEvent::Kept { number: kept } => number = kept,
            ModelEvent::Done { stop, usage } => {
                let stop = if calls.is_empty() { stop } else { with_calls(stop) };
                let entry = JournalEntry::Answer { model: String::new(), text, calls, stop, usage };
                return Ok(Answered::Kept(JournalRow { number, at_ms: 0, incarnation, entry }));
            }
            ModelEvent::Failed(failure) => return Ok(Answered::Failed(failure)),
        }
    }
}

fn too_late() -> ModelFailure {
    let message = "the answer did not begin in time".to_owned();
    ModelFailure { code: ModelFailureCode::Unavailable, message }
}

/// Corrects the reason of providers that report a normal end for an answer with calls.
fn with_calls(stop: StopReason) -> StopReason {
    if stop == StopReason::End { StopReason::Calls } else { stop }
}
