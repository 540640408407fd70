//! What code did, and the kernels it runs in.

use std::collections::BTreeMap;

use sandyard_protocol::{KernelState, Language};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What a piece of code did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CodeView {
    /// Names it, for `GET /jobs/{id}/code/{execution}`.
    pub execution: String,
    /// Where it ran.
    pub kernel: String,
    /// What it was.
    pub language: Language,
    /// How it ended.
    pub status: CodeStatus,
    /// Standard output; the middle is left out beyond 1 MiB, with a line that says how much.
    pub stdout: String,
    /// Standard error, bounded likewise.
    pub stderr: String,
    /// The last expression as text.
    pub result: Option<String>,
    /// Everything that was shown, the last expression included, each by MIME type: text as text, images in base64.
    pub outputs: Vec<BTreeMap<String, Value>>,
    /// The exception that ended it.
    pub error: Option<CodeError>,
    /// The kernel's own count.
    pub execution_count: Option<u64>,
    /// Whether a time limit ended it.
    pub timed_out: bool,
    /// What is worth knowing besides: a fresh kernel, a lost state, something left out.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Bytes left out of all of the above, only if there are any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated_bytes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How a piece of code ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CodeStatus {
    /// To its end.
    Ok,
    /// By an exception.
    Error,
    /// By its time limit.
    TimedOut,
    /// By its limit on time without output.
    IdleTimedOut,
    /// By a request to interrupt it.
    Interrupted,
    /// With its kernel, whose process ended.
    Died,
    /// Before it began: its kernel was restarted or stopped.
    Aborted,
    /// Nobody knows: the sandbox's keeper was restarted meanwhile.
    Lost,
}

/// An exception.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeError {
    /// Its type.
    pub name: String,
    /// What it says.
    pub message: String,
    /// Where it came from, without colours.
    pub traceback: Vec<String>,
}

/// A kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelView {
    /// Its name.
    pub kernel: String,
    /// What it understands.
    pub language: Language,
    /// What it does.
    pub state: KernelState,
    /// Pieces of code that wait for it.
    pub queued: u32,
    /// The count of its last execution.
    pub execution_count: u64,
    /// Where other Jupyter clients in the sandbox find it.
    pub connection_file: String,
}

/// All kernels of a job, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelListView {
    /// The kernels.
    pub kernels: Vec<KernelView>,
}

/// What `POST /jobs/{id}/code` streams when asked for `text/event-stream`: `started`, output, then one `done` or `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CodeEvent {
    /// It was taken; with this name a lost client finds it again.
    Started {
        /// Names it.
        execution: String,
        /// Where it runs.
        kernel: String,
    },
    /// Standard output.
    Stdout {
        /// The text.
        text: String,
    },
    /// Standard error.
    Stderr {
        /// The text.
        text: String,
    },
    /// Something was shown.
    Display {
        /// By MIME type.
        data: BTreeMap<String, Value>,
    },
    /// The value of the last expression.
    Result {
        /// By MIME type.
        data: BTreeMap<String, Value>,
    },
    /// An exception.
    Exception(CodeError),
    /// What was shown so far is to be replaced by what comes.
    Clear,
    /// Worth knowing.
    Note {
        /// A sentence.
        text: String,
    },
    /// So many bytes were left out here.
    Truncated {
        /// Bytes that are gone.
        dropped_bytes: u64,
    },
    /// It is over; the last event.
    Done {
        /// How it ended.
        status: CodeStatus,
        /// The kernel's own count.
        execution_count: Option<u64>,
    },
    /// The sandbox was lost before the end; the last event.
    Error {
        /// Stable, in snake_case.
        code: String,
        /// One sentence.
        message: String,
    },
}

impl CodeEvent {
    /// The name in the SSE field `event`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Stdout { .. } => "stdout",
            Self::Stderr { .. } => "stderr",
            Self::Display { .. } => "display",
            Self::Result { .. } => "result",
            Self::Exception(_) => "exception",
            Self::Clear => "clear",
            Self::Note { .. } => "note",
            Self::Truncated { .. } => "truncated",
            Self::Done { .. } => "done",
            Self::Error { .. } => "error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_in_the_data_is_the_name_of_the_event() {
        let events = [
            CodeEvent::Stdout { text: "x".into() },
            CodeEvent::Exception(CodeError { name: "E".into(), message: "m".into(), traceback: vec![] }),
            CodeEvent::Clear,
            CodeEvent::Done { status: CodeStatus::TimedOut, execution_count: None },
        ];
        for event in events {
            assert_eq!(serde_json::to_value(&event).unwrap()["type"], event.name());
        }
    }
}
