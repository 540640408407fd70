//! Where answers are kept, so that none is paid twice: the job's journal, behind a trait.

use std::fmt;

use async_trait::async_trait;
use sandyard_protocol::{JournalEntry, ModelEvent, ModelUsage, StopReason, ToolCall};

use super::{Money, Spent};

/// The journal can't be read or written; the call is given up, and may be made again.
#[derive(Debug, thiserror::Error)]
#[error("the journal can't be had at the moment")]
pub(crate) struct LedgerError;

/// An answer that was given before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptAnswer {
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) stop: StopReason,
    pub(crate) usage: ModelUsage,
}

/// A call that is about to leave the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asking {
    /// The journal number that its answer is expected to have.
    pub(crate) number: u64,
    /// As the operator named it.
    pub(crate) model: String,
    /// Whether the provider's key goes with it.
    pub(crate) with_key: bool,
    /// The call as JSON: how long, and its SHA-256.
    pub(crate) bytes: usize,
    pub(crate) sha256: String,
}

/// One job's kept answers.
#[async_trait]
pub(crate) trait Ledger: fmt::Debug + Send + Sync {
    /// The answer that is kept under a number, or behind what was said there meanwhile, and its number.
    async fn kept(&self, number: u64) -> Result<Option<(u64, KeptAnswer)>, LedgerError>;

    /// Keeps an answer, durably, together with what the job has spent in all; returns its number.
    async fn keep(&self, answer: JournalEntry, spent: Spent, cost: Option<Money>)
    -> Result<u64, LedgerError>;

    /// Notes a call that leaves the host, before it does.
    async fn asking(&self, asking: Asking) -> Result<(), LedgerError>;
}

/// The entry of an answer.
pub(super) fn answer(model: &str, said: &[ModelEvent], stop: StopReason, usage: ModelUsage) -> JournalEntry {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for event in said {
        match event {
            ModelEvent::Text { text: more } => text.push_str(more),
            ModelEvent::Call(call) => calls.push(call.clone()),
            ModelEvent::Kept { .. } | ModelEvent::Done { .. } | ModelEvent::Failed(_) => {}
        }
    }
    JournalEntry::Answer { model: model.to_owned(), text, calls, stop, usage }
}
