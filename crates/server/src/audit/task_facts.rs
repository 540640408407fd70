//! Facts about a task's model calls and tool calls.

use sandyard_protocol::ModelFailureCode;
use serde::Serialize;

/// A call of a model: before it, its answer, or its failure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ModelCallFacts {
    model: String,
    outcome: ModelCallOutcome,
    #[serde(flatten)]
    details: ModelCallDetails,
}

/// The member `outcome` of a model record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ModelCallOutcome {
    Asked,
    Answered,
    CalledOff,
    #[serde(untagged)]
    Failed(ModelFailureCode),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum ModelCallDetails {
    Request { entry: u64, bytes: usize, sha256: String },
    Answer(ModelAnswerFacts),
    None { entry: u64 },
}

/// The answer of a model, by cost and hash.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ModelAnswerFacts {
    pub(crate) tokens_in: u64,
    pub(crate) tokens_cached: u64,
    pub(crate) tokens_out: u64,
    /// In 10^-12 US dollars; none if the model has no price.
    pub(crate) picousd: Option<u64>,
    /// Tool calls in the answer.
    pub(crate) calls: usize,
    pub(crate) sha256: String,
}

impl ModelCallFacts {
    /// A request that is about to be sent. `entry` is the journal number that its answer is to have.
    pub(crate) fn asked(model: String, entry: u64, bytes: usize, sha256: String) -> Self {
        let details = ModelCallDetails::Request { entry, bytes, sha256 };
        Self { model, outcome: ModelCallOutcome::Asked, details }
    }

    pub(crate) fn answered(model: String, answer: ModelAnswerFacts) -> Self {
        Self { model, outcome: ModelCallOutcome::Answered, details: ModelCallDetails::Answer(answer) }
    }

    pub(crate) fn failed(model: String, entry: u64, code: ModelFailureCode) -> Self {
        Self { model, outcome: ModelCallOutcome::Failed(code), details: ModelCallDetails::None { entry } }
    }

    /// The sandbox went away before the answer was complete.
    pub(crate) fn called_off(model: String, entry: u64) -> Self {
        Self { model, outcome: ModelCallOutcome::CalledOff, details: ModelCallDetails::None { entry } }
    }
}

/// A tool call of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StepFacts {
    pub(crate) call: String,
    pub(crate) tool: String,
    /// Length of the arguments.
    pub(crate) bytes: usize,
    pub(crate) sha256: String,
    /// Of the file tool only: the action and its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
}

/// The end of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StepEndFacts {
    pub(crate) call: String,
    /// None if the journal has no beginning of this call.
    pub(crate) tool: Option<String>,
    pub(crate) failed: bool,
    pub(crate) interrupted: bool,
    pub(crate) took_ms: u64,
    pub(crate) files: Vec<String>,
    /// SHA-256 of the result as JSON.
    pub(crate) sha256: String,
}
