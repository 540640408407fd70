//! Events of a job, as server-sent events.
//!
//! Events are numbered from 1 without gaps, so a client resumes with `Last-Event-ID`. The SSE field `event` is
//! [`EventBody::name`], the field `data` is the JSON of [`JobEvent`] without its id.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandyard_protocol::{ModelFailureCode, OutputStream, PlanState, Speaker};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{JobState, JobStatus, Timestamp, UsageSample};

/// One event of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobEvent {
    /// Number of the event; in SSE it is the `id` field and not part of `data`.
    #[serde(skip)]
    pub id: u64,
    /// Time of recording.
    pub at: Timestamp,
    /// The content of an event.
    #[serde(flatten)]
    pub body: EventBody,
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventBody {
    /// The state of the job changed.
    State {
        /// The new state.
        state: JobState,
        /// The status that belongs to the state.
        status: JobStatus,
        /// The reason, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Exit code of the job's process, once it ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Question of a waiting task.
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
        /// Id of the call; its `tool` event has the same.
        call: String,
        /// Name of the tool.
        tool: String,
        /// Arguments as the model wrote them, cut after 2,000 bytes.
        arguments: String,
    },
    /// A tool call of a task ended.
    Tool(ToolEvent),
    /// A model answers: text as it arrives, and at the end its cost.
    Model(ModelCallEvent),
    /// A task wrote a file.
    File {
        /// Relative to the workspace.
        path: String,
    },
    /// A task received a picture.
    Screenshot {
        /// Number of the journal entry with the picture.
        entry: u64,
        /// Index of the picture among the parts of the entry.
        picture: u64,
    },
    /// The desktop looked like this from now on, until the next such event.
    Frame(FrameEvent),
    /// What the job has used so far. Left out while it rests.
    Usage(UsageSample),
    /// The current plan of a task.
    Plan {
        /// Items of the plan, in order.
        items: Vec<PlanItemView>,
    },
    /// A task received a message.
    Said {
        /// Text of the message.
        text: String,
        /// `person`, or `host` if the server answers for a person who did not.
        by: Speaker,
    },
    /// A program in the sandbox tried to connect to a host.
    Egress {
        /// Host and port.
        target: String,
        /// Progress of the attempt.
        decision: EgressDecision,
        /// Reason of a refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Bytes sent, when the connection is closed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent: Option<u64>,
        /// Bytes received, when the connection is closed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        received: Option<u64>,
    },
    /// An output stream exceeded its cap: head and tail are stored, the middle is dropped.
    Truncated {
        /// The stream.
        stream: OutputStream,
    },
}

impl EventBody {
    /// Returns the SSE field `event`.
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
            Self::Frame(_) => "frame",
            Self::Usage(_) => "usage",
            Self::Plan { .. } => "plan",
            Self::Said { .. } => "said",
            Self::Egress { .. } => "egress",
            Self::Truncated { .. } => "truncated",
        }
    }
}

/// A recorded look of the desktop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FrameEvent {
    /// Number of the picture at `/jobs/{id}/frames/{picture}`. A desktop that looks as before has the picture of before.
    pub picture: u64,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// Progress of an attempt to reach the network.
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

/// An ended tool call of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolEvent {
    /// Id of the call; its `step` event has the same.
    pub call: String,
    /// Name of the tool, if known.
    pub tool: Option<String>,
    /// True if the call failed.
    pub failed: bool,
    /// True if the call was interrupted.
    pub interrupted: bool,
    /// Duration of the call.
    pub took_ms: u64,
    /// Beginning of the result for the model, at most 2,000 bytes.
    pub output: String,
}

/// A piece of a model's answer (`text`), or the end of a model call (`done`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ModelEvent)]
pub struct ModelCallEvent {
    /// Number of the answer in the job's journal.
    pub entry: u64,
    /// Bytes of the answer before `text`; 0 again if the call was retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The next piece of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// True at the end of the call.
    #[serde(default)]
    pub done: bool,
    /// Name of the model; `replay:` at its beginning means a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Tokens of `tokens_in` that the provider read from its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_cached: Option<u64>,
    /// Tokens received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// Cost of the call, if the model has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Reason for a missing answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Code of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ModelFailureCode>,
    /// True if the caller was gone before the answer.
    #[serde(default)]
    pub called_off: bool,
}

/// One item of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanItemView {
    /// Text of the item.
    pub text: String,
    /// How far it is.
    pub state: PlanState,
}

/// A piece of output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputText {
    /// Position of its first byte in the stream.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The text; bytes that are not UTF-8 are replaced by U+FFFD. Empty if the output is no longer stored.
    #[serde(default)]
    pub text: String,
    /// The exact bytes in base64, only if `text` is not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl OutputText {
    /// Returns the output at an offset.
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

    /// Returns the exact bytes; `None` if the sender's base64 is invalid.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match &self.base64 {
            Some(encoded) => STANDARD.decode(encoded).ok(),
            None => Some(self.text.clone().into_bytes()),
        }
    }
}

/// An event of `POST /jobs/{id}/shell` and `GET /jobs/{id}/processes/{process}` with `Accept: text/event-stream`: `started`, output,
/// then one `exit` or `error`. The SSE field `id` of output is the position after it, for `?offset=` or `Last-Event-ID`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ShellEvent {
    /// The command runs. A client whose connection is lost finds it again by this id.
    Started {
        /// Id of the process.
        process: String,
    },
    /// Standard output.
    Stdout(OutputText),
    /// Standard error.
    Stderr(OutputText),
    /// Output was dropped: the client read too slowly, or it came back too late.
    Truncated {
        /// Number of dropped bytes.
        dropped_bytes: u64,
    },
    /// The command ended. The last event.
    Exit {
        /// 128 + the signal's number if a signal ended it.
        exit_code: i32,
        /// True if a time limit ended the command.
        timed_out: bool,
    },
    /// The sandbox was lost before the end. The last event.
    Error {
        /// Stable code in snake_case.
        code: String,
        /// The error in one sentence.
        message: String,
    },
}

impl ShellEvent {
    /// Returns the SSE field `event`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
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
            EventBody::Model(ModelCallEvent::default()),
            EventBody::File { path: "a".into() },
            EventBody::Screenshot { entry: 1, picture: 0 },
            EventBody::Frame(FrameEvent { picture: 1, width: 1280, height: 800 }),
            EventBody::Usage(UsageSample::default()),
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
