//! The store of answers, so that none is paid twice: the job's journal, behind a trait.

use std::fmt;

use async_trait::async_trait;
use sandyard_protocol::{ContextPart, JournalEntry, ModelEvent, ModelUsage, StopReason, ToolCall};

use super::{Money, Spent};

/// The journal can't be read or written. The call fails, and may be repeated.
#[derive(Debug, thiserror::Error)]
#[error("the journal is not available")]
pub(crate) struct LedgerError;

/// An answer in the journal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptAnswer {
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) stop: StopReason,
    pub(crate) usage: ModelUsage,
}

/// A call that is about to leave the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutgoingCall {
    /// The journal number that its answer is expected to have.
    pub(crate) number: u64,
    /// The model's name as the operator wrote it.
    pub(crate) model: String,
    /// True if the call carries the provider's key.
    pub(crate) with_key: bool,
    /// Length of the call as JSON.
    pub(crate) bytes: usize,
    /// SHA-256 of the call as JSON.
    pub(crate) sha256: String,
}

/// The answers of one job. For each call the gateway uses `kept`, then `record_outgoing`, then `keep`.
#[async_trait]
pub(crate) trait Ledger: fmt::Debug + Send + Sync {
    /// Returns the answer at a number, or behind messages of people at that number, and the answer's own number.
    async fn kept(&self, number: u64) -> Result<Option<(u64, KeptAnswer)>, LedgerError>;

    /// Stores an answer durably, in one commit with the job's total spending. Returns the answer's number.
    async fn keep(&self, answer: JournalEntry, spent: Spent, cost: Option<Money>)
    -> Result<u64, LedgerError>;

    /// Keeps what the call of the next answer is made of. The disk has it with the answer.
    async fn keep_packing(&self, packing: &[ContextPart]) -> Result<(), LedgerError>;

    /// Records a call in the audit before it leaves the host.
    async fn record_outgoing(&self, call: OutgoingCall) -> Result<(), LedgerError>;
}

/// Returns the journal entry of an answer.
pub(super) fn answer(
    model: &str,
    events: &[ModelEvent],
    stop: StopReason,
    usage: ModelUsage,
) -> JournalEntry {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for event in events {
        match event {
            ModelEvent::Text { text: more } => text.push_str(more),
            ModelEvent::Call(call) => calls.push(call.clone()),
            ModelEvent::Kept { .. } | ModelEvent::Done { .. } | ModelEvent::Failed(_) => {}
        }
    }
    JournalEntry::Answer { model: model.to_owned(), text, calls, stop, usage }
}
