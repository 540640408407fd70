//! Model calls that the agent sends to the host: one format for every provider.

use serde::{Deserialize, Serialize};

use crate::ContextPart;

/// A call of a language model. The host adds the provider's key, and the job's model if none is named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The journal number that the answer is expected to get. If the journal has an answer under this number, the host sends it
    /// again and does not ask the provider.
    pub number: u64,
    /// A model that the job may use; the job's own if none is named.
    pub model: Option<String>,
    /// The system prompt, sent to the provider before the conversation.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<ModelMessage>,
    /// Tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// What the conversation is made of, and why: the host stores it with the answer. Empty if all of the journal is in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packing: Vec<ContextPart>,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ModelMessage {
    /// Text and pictures from a person, or from the agent's loop in a person's place.
    User {
        /// Text and pictures in the order in which the model reads them.
        parts: Vec<ModelPart>,
    },
    /// An earlier answer of the model.
    Assistant {
        /// The text of the answer.
        text: String,
        /// Tool calls of the answer.
        calls: Vec<ToolCall>,
    },
    /// Results of the tool calls of the answer before, one for each call.
    Tools {
        /// In the order of the calls.
        results: Vec<ToolResult>,
    },
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ModelPart {
    /// A piece of text.
    Text {
        /// The text, UTF-8 without bound of its own.
        text: String,
    },
    /// A PNG picture, for models that accept pictures.
    Png {
        /// The bytes in base64.
        base64: String,
    },
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name by which the model calls the tool.
    pub name: String,
    /// What the tool does, written for the model.
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: serde_json::Value,
}

/// A tool call that the model made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the conversation.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments as the model wrote them: meant to be JSON, but not always valid.
    pub arguments: String,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call: String,
    /// Content that the model reads.
    pub parts: Vec<ModelPart>,
    /// True if the call failed.
    pub failed: bool,
}

/// A part of the answer, sent by the host in order. The last event is `Done` or `Failed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ModelEvent {
    /// More text of the answer.
    Text {
        /// The new text only.
        text: String,
    },
    /// A complete tool call.
    Call(ToolCall),
    /// The answer is durable in the journal. Sent just before `Done`.
    Kept {
        /// The journal number of the answer.
        number: u64,
    },
    /// The answer is complete.
    Done {
        /// Why the answer ended.
        stop: StopReason,
        /// Tokens of the call.
        usage: ModelUsage,
    },
    /// There is no answer.
    Failed(ModelFailure),
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    End,
    /// The model waits for the results of its tool calls.
    Calls,
    /// The answer reached `max_tokens`.
    Length,
    /// The model declined to answer.
    Refused,
}

/// Tokens of a model call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Tokens read, those from the provider's cache included.
    pub input: u64,
    /// The part of `input` that was read from the provider's cache.
    pub cached: u64,
    /// The part of `input` that was written to the provider's cache, where writing has a price of its own.
    #[serde(default)]
    pub cache_written: u64,
    /// Tokens that the model wrote.
    pub output: u64,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// The kind of failure.
    pub code: ModelFailureCode,
    /// One sentence that contains no secret.
    pub message: String,
}

/// Kinds of failure, by how the agent's loop should react.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelFailureCode {
    /// The job has used up its budget.
    Budget,
    /// The job may not use this model, or no model is configured.
    NotAllowed,
    /// The conversation is longer than the model's window.
    ContextTooLong,
    /// The provider rejects the request; repeating it does not help.
    Rejected,
    /// The provider does not accept the key.
    Credentials,
    /// The provider could not be reached or failed repeatedly.
    Unavailable,
}
