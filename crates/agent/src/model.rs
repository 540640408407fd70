//! One question to the model, asked again with the same number until it is answered: the host gives an answer that it has kept
//! a second time, and asks nobody twice.

use std::time::Duration;

use sandyard_pipe::FrameError;
use sandyard_protocol::{
    JournalEntry, JournalRow, ModelCall, ModelEvent, ModelFailure, StopReason, ToolCall,
};

use crate::keeper::Keeper;

/// Between two attempts, when the host was lost.
const RETRY: Duration = Duration::from_millis(500);

/// What the host answered.
#[derive(Debug)]
pub(crate) enum Answered {
    /// The answer, as the journal has it.
    Kept(JournalRow),
    /// There is none.
    Failed(ModelFailure),
}

/// Asks, for as long as it takes.
pub(crate) async fn ask(keeper: &Keeper, call: &ModelCall, incarnation: u32) -> Answered {
    loop {
        if let Ok(answered) = try_ask(keeper, call, incarnation).await {
            return answered;
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn try_ask(keeper: &Keeper, call: &ModelCall, incarnation: u32) -> Result<Answered, FrameError> {
    let mut stream = keeper.model().await?;
    stream.send_message(call).await?;
    let (mut text, mut calls, mut number): (String, Vec<ToolCall>, u64) = Default::default();
    loop {
        match stream.receive_message().await? {
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

/// Some providers say that an answer ended although it calls something.
fn with_calls(stop: StopReason) -> StopReason {
    if stop == StopReason::End { StopReason::Calls } else { stop }
}
