//! What a job tells of itself, one server-sent event each.
//!
//! An event's id rises by one from 1, without gaps, so a client resumes with `Last-Event-ID`. The SSE field `event` is
//! [`EventBody::name`], the field `data` is the JSON of [`JobEvent`] without its id.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandyard_protocol::{ModelFailureCode, OutputStream, PlanState, Speaker};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{JobState, JobStatus, Timestamp};

/// One event of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobEvent {
    /// Its number; in SSE the `id` field rather than part of `data`.
    #[serde(skip)]
    pub id: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventBody {
    /// The job is in a new state.
    State {
        /// The state.
        state: JobState,
        /// The same, in four words.
        status: JobStatus,
        /// Why, if there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What the job's process exited with, once it has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// What a task asks, while it waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
    },
    /// Standard output of the job's process.
    Stdout(OutputText),
    /// Standard error of the job's process.
    Stderr(OutputText),
    /// A sentence for a person.
    Note {
        /// The sentence.
        text: String,
    },
    /// A task is about to call a tool.
    Step {
        /// The call's id, as its `tool` event has it.
        call: String,
        /// Which tool.
        tool: String,
        /// What the model wrote, cut after 2,000 bytes.
        arguments: String,
    },
    /// A task's call of a tool is over.
    Tool(ToolEvent),
    /// A model answers: words as they come, and at the end what it took.
    Model(ModelEvent),
    /// A task wrote a file.
    File {
        /// Relative to the workspace.
        path: String,
    },
    /// A task looked at a picture.
    Screenshot {
        /// The number of the entry in the job's journal that has it.
        entry: u64,
        /// Which of the entry's parts.
        picture: u64,
    },
    /// What a task means to do, as it is now.
    Plan {
        /// In order.
        items: Vec<PlanItemView>,
    },
    /// Somebody told a task something.
    Said {
        /// The words.
        text: String,
        /// `person`, or `host` in the place of one who did not answer.
        by: Speaker,
    },
    /// A program asked for a place on the network.
    Egress {
        /// Host and port.
        target: String,
        /// How far the attempt came.
        decision: EgressDecision,
        /// Why it was refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Bytes sent, once it is closed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent: Option<u64>,
        /// Bytes received, once it is closed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        received: Option<u64>,
    },
    /// A stream passed its cap: its head and tail are kept, the middle is not.
    Truncated {
        /// Which stream.
        stream: OutputStream,
    },
}

impl EventBody {
    /// The name in the SSE field `event`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::State { .. } => "state",
            Self::Stdout(_) => "stdout",
            Self::Stderr(_) => "stderr",
            Self::Note { .. } => "note",
            Self::Step { .. } => "step",
            Self::Tool(_) => "tool",
            Self::Model(_) => "model",
            Self::File { .. } => "file",
            Self::Screenshot { .. } => "screenshot",
            Self::Plan { .. } => "plan",
            Self::Said { .. } => "said",
            Self::Egress { .. } => "egress",
            Self::Truncated { .. } => "truncated",
        }
    }
}

/// What became of an attempt to reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EgressDecision {
    /// The job may connect; a `refused` or `closed` follows.
    Allowed,
    /// The job may not connect, or the connection failed.
    Refused,
    /// The connection is over.
    Closed,
}

/// A task's call of a tool, once it is over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolEvent {
    /// The call's id, as its `step` event has it.
    pub call: String,
    /// Which tool, if that is known.
    pub tool: Option<String>,
    /// Whether it failed.
    pub failed: bool,
    /// Whether it was cut off in the middle.
    pub interrupted: bool,
    /// How long it took.
    pub took_ms: u64,
    /// The beginning of what the model is shown, at most 2,000 bytes.
    pub output: String,
}

/// A run of a model's answer (`text`), or the end of a call of it (`done`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelEvent {
    /// The number that the answer has, or is to have, in the job's journal.
    pub entry: u64,
    /// Bytes of the answer before `text`; 0 again if the model had to be asked anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// More words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the call is over.
    #[serde(default)]
    pub done: bool,
    /// Which model; one that begins with `replay:` is a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Of them, read from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_cached: Option<u64>,
    /// Tokens got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// What it cost, if the model has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The kind of that failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ModelFailureCode>,
    /// Whether nobody waited for the answer any more.
    #[serde(default)]
    pub called_off: bool,
}

/// One thing that a task means to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanItemView {
    /// What.
    pub text: String,
    /// How far it is.
    pub state: PlanState,
}

/// A run of output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputText {
    /// Position of its first byte in the stream.
    pub offset: u64,
    /// Bytes of it.
    pub length: u64,
    /// The text; bytes that are not UTF-8 are replaced by U+FFFD. Empty if the output is no longer kept.
    #[serde(default)]
    pub text: String,
    /// The exact bytes, only if `text` is not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl OutputText {
    /// The output at an offset.
    pub fn new(offset: u64, bytes: &[u8]) -> Self {
        let length = bytes.len() as u64;
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { offset, length, text: text.to_owned(), base64: None },
            Err(_) => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                Self { offset, length, text, base64: Some(STANDARD.encode(bytes)) }
            }
        }
    }

    /// The exact bytes; `None` if a sender put something other than base64 there.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match &self.base64 {
            Some(encoded) => STANDARD.decode(encoded).ok(),
            None => Some(self.text.clone().into_bytes()),
        }
    }
}

/// What `POST /jobs/{id}/shell` streams when asked for `text/event-stream`: output, then one `exit` or `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ShellEvent {
    /// Standard output.
    Stdout(OutputText),
    /// Standard error.
    Stderr(OutputText),
    /// Output that came too fast for the client and is no longer kept.
    Truncated {
        /// Bytes that are gone.
        dropped_bytes: u64,
    },
    /// The command is over; the last event.
    Exit {
        /// 128 + the signal's number if a signal ended it.
        exit_code: i32,
        /// Whether a time limit ended it.
        timed_out: bool,
    },
    /// The sandbox was lost before the end; the last event.
    Error {
        /// Stable, in snake_case.
        code: String,
        /// One sentence.
        message: String,
    },
}

impl ShellEvent {
    /// The name in the SSE field `event`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stdout(_) => "stdout",
            Self::Stderr(_) => "stderr",
            Self::Truncated { .. } => "truncated",
            Self::Exit { .. } => "exit",
            Self::Error { .. } => "error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_in_the_data_is_the_name_of_the_event() {
        let bodies = [
            EventBody::State {
                state: JobState::Running,
                status: JobStatus::Running,
                reason: None,
                exit_code: None,
                question: None,
            },
            EventBody::Step { call: "c".into(), tool: "shell".into(), arguments: "{}".into() },
            EventBody::Tool(ToolEvent::default()),
            EventBody::Model(ModelEvent::default()),
            EventBody::File { path: "a".into() },
            EventBody::Screenshot { entry: 1, picture: 0 },
            EventBody::Plan { items: vec![] },
            EventBody::Said { text: "s".into(), by: Speaker::Person },
            EventBody::Stdout(OutputText::new(7, b"hi")),
            EventBody::Stderr(OutputText::default()),
            EventBody::Note { text: "n".into() },
            EventBody::Truncated { stream: OutputStream::Stdout },
        ];
        for body in bodies {
            let event = JobEvent { id: 3, at: Timestamp::from_unix_ms(0), body };
            let json = serde_json::to_value(&event).unwrap();
            assert_eq!(json["type"], event.body.name());
            assert!(json.get("id").is_none());
        }
    }

    #[test]
    fn output_keeps_its_exact_bytes() {
        assert_eq!(OutputText::new(0, b"plain").base64, None);
        let output = OutputText::new(4, b"a\xffb");
        assert_eq!(output.text, "a\u{fffd}b");
        assert_eq!(output.bytes().unwrap(), b"a\xffb");
    }
}
