//! Events as producers build them and the store keeps them.
//!
//! A stored event is the JSON of [`sandyard_api::EventBody`] with three differences: its tag `type` is a column of its own,
//! the `status` of a state is added when the event is sent, and output holds the number of its chunk instead of the text.
//! [`StoredEvent::row`] is the only place that serialises one.

use sandyard_api::{FrameEvent, PlanItemView, ToolEvent, UsageSample};
use sandyard_protocol::{ModelFailureCode, OutputStream, Speaker};
use serde::Serialize;

use super::state::JobState;
use crate::audit::EgressFacts;

/// Something that happened to a job. The variants are those of [`sandyard_api::EventBody`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum StoredEvent {
    State {
        state: JobState,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    Output {
        #[serde(skip)]
        stream: OutputStream,
        chunk: u64,
        offset: u64,
        length: u64,
    },
    Truncated {
        stream: OutputStream,
    },
    Note {
        text: String,
    },
    Step {
        call: String,
        tool: String,
        arguments: String,
    },
    Tool(ToolEvent),
    Model(StoredModelEvent),
    File {
        path: String,
    },
    Screenshot {
        entry: u64,
        picture: u64,
    },
    Frame(FrameEvent),
    Usage(UsageSample),
    Plan {
        items: Vec<PlanItemView>,
    },
    Said {
        text: String,
        by: Speaker,
    },
    Egress(EgressFacts),
}

/// A run of a model's answer, or the end of a call. `entry` is the journal number that the answer has or is to have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum StoredModelEvent {
    Text { entry: u64, offset: u64, text: String },
    Answered(ModelAnswerEvent),
    Failed { entry: u64, model: String, done: bool, error: String, code: ModelFailureCode },
    CalledOff { entry: u64, model: String, done: bool, called_off: bool },
}

/// The end of a call that was answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ModelAnswerEvent {
    pub(crate) entry: u64,
    pub(crate) model: String,
    pub(crate) done: bool,
    /// None if the model has no price; stored as null.
    pub(crate) usd: Option<f64>,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_cached: u64,
    pub(crate) tokens_out: u64,
}

/// A committed event. The text of output is not in it, only its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventRow {
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) at_ms: i64,
    pub(crate) data: serde_json::Value,
}

impl StoredEvent {
    /// Returns the name of the event: the `type` of its wire form.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::State { .. } => "state",
            Self::Output { stream: OutputStream::Stdout, .. } => "stdout",
            Self::Output { stream: OutputStream::Stderr, .. } => "stderr",
            Self::Truncated { .. } => "truncated",
            Self::Note { .. } => "note",
            Self::Step { .. } => "step",
            Self::Tool(_) => "tool",
            Self::Model(_) => "model",
            Self::File { .. } => "file",
            Self::Screenshot { .. } => "screenshot",
            Self::Frame(_) => "frame",
            Self::Usage(_) => "usage",
            Self::Plan { .. } => "plan",
            Self::Said { .. } => "said",
            Self::Egress(_) => "egress",
        }
    }

    /// Serialises the event for the store.
    pub(super) fn row(&self, id: u64, at_ms: i64) -> EventRow {
        // Serialising fails only for maps with keys that are not text; no variant has one.
        let data = serde_json::to_value(self).unwrap_or_default();
        EventRow { id, kind: self.kind().to_owned(), at_ms, data }
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
