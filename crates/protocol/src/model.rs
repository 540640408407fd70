//! A call of a language model, as the agent asks it of the host: one form for every provider.

use serde::{Deserialize, Serialize};

/// What the agent asks. The host adds the key, and the model if none is named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The journal number that the answer is expected to have. If an answer is kept there, it is given again, and nobody asked.
    pub number: u64,
    /// Which model of those the job may use; the job's own if none is named.
    pub model: Option<String>,
    /// Standing instructions.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<ModelMessage>,
    /// What the model may call.
    pub tools: Vec<ToolSpec>,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ModelMessage {
    /// What a person, or the loop in a person's place, says.
    User {
        /// Its parts.
        parts: Vec<ModelPart>,
    },
    /// What the model said before.
    Assistant {
        /// Its words.
        text: String,
        /// What it called.
        calls: Vec<ToolCall>,
    },
    /// What the calls of the last answer came to, one result each.
    Tools {
        /// In the order of the calls.
        results: Vec<ToolResult>,
    },
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ModelPart {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A picture, for models that see.
    Png {
        /// In base64.
        base64: String,
    },
}

/// Something that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// A JSON schema of its arguments.
    pub parameters: serde_json::Value,
}

/// A call that the model made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the conversation.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// Its arguments as the model wrote them: meant to be JSON, and not always JSON.
    pub arguments: String,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Of which call.
    pub call: String,
    /// What the model is shown.
    pub parts: Vec<ModelPart>,
    /// Whether it failed.
    pub failed: bool,
}

/// What the host sends back, in order; the last one is `Done` or `Failed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ModelEvent {
    /// More words.
    Text {
        /// Those that are new.
        text: String,
    },
    /// A whole call of a tool.
    Call(ToolCall),
    /// The answer is in the journal, durable; comes just before `Done`.
    Kept {
        /// Under this number.
        number: u64,
    },
    /// The answer is complete.
    Done {
        /// Why it ended.
        stop: StopReason,
        /// What it took.
        usage: ModelUsage,
    },
    /// There is no answer.
    Failed(ModelFailure),
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model had said what it wanted.
    End,
    /// It waits for the results of its calls.
    Calls,
    /// It reached `max_tokens`.
    Length,
    /// It declined.
    Refused,
}

/// What a call took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Tokens read, those from the provider's cache included.
    pub input: u64,
    /// Of them, read from the provider's cache.
    pub cached: u64,
    /// Of them, written to the provider's cache, where that has a price of its own.
    #[serde(default)]
    pub cache_written: u64,
    /// Tokens written.
    pub output: u64,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// What kind of failure.
    pub code: ModelFailureCode,
    /// One sentence, without anything secret.
    pub message: String,
}

/// Kinds of failure, by what the loop should do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailureCode {
    /// The job has used up its budget.
    Budget,
    /// The job may not use this model, or there is none.
    NotAllowed,
    /// The conversation is longer than the model's window.
    ContextTooLong,
    /// The provider refuses the request as it is; asking again is of no use.
    Rejected,
    /// The provider does not let us in.
    Credentials,
    /// The provider could not be reached, or failed again and again.
    Unavailable,
}
