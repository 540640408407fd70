//! What a model read.

use sandyard_protocol::ContextReason;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::timestamp::Timestamp;

/// What a model read for one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContextView {
    /// Number of the answer in the journal.
    pub entry: u64,
    /// Name of the model.
    pub model: String,
    /// When the answer was stored.
    pub at: Timestamp,
    /// Tokens of the call as the provider counted them.
    pub tokens_in: u64,
    /// Those of them that came from the provider's cache.
    pub tokens_cached: u64,
    /// False if the model read all of the journal before the answer as it is.
    pub packed: bool,
    /// The parts of the call in the order in which the model read them; empty if nothing was packed.
    pub parts: Vec<ContextPartView>,
}

/// A part of what a model read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextPartView {
    /// The first journal entry that it stands for.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// Why it is there.
    pub reason: ContextReason,
    /// Estimated tokens.
    pub tokens: u64,
    /// The text in the place of the entries; `null` if they are there as they are.
    pub text: Option<String>,
}
