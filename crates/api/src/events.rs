//! What a job tells of itself, one server-sent event each.
//!
//! An event's id rises by one from 1, without gaps, so a client resumes with `Last-Event-ID`. The SSE field `event` is
//! [`EventBody::name`], the field `data` is the JSON of [`JobEvent`] without its id.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{JobState, JobStatus, LogStream, Timestamp};

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
    /// A stream passed its cap: its head and tail are kept, the middle is not.
    Truncated {
        /// Which stream.
        stream: LogStream,
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
            Self::Truncated { .. } => "truncated",
        }
    }
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
            },
            EventBody::Stdout(OutputText::new(7, b"hi")),
            EventBody::Stderr(OutputText::default()),
            EventBody::Note { text: "n".into() },
            EventBody::Truncated { stream: LogStream::Stdout },
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
