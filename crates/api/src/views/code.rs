//! Results of code, and kernels.

use std::collections::BTreeMap;

use sandyard_protocol::{KernelState, Language};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The result of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CodeView {
    /// Id of the execution, for `GET /jobs/{id}/code/{execution}`.
    pub execution: String,
    /// Kernel that ran the code.
    pub kernel: String,
    /// Language of the code.
    pub language: Language,
    /// How the execution ended.
    pub status: CodeStatus,
    /// Standard output; the middle is left out beyond 1 MiB, with a line that says how much.
    pub stdout: String,
    /// Standard error, bounded likewise.
    pub stderr: String,
    /// The last expression as text.
    pub result: Option<String>,
    /// All displayed outputs, including the last expression, by MIME type: text as text, images in base64.
    pub outputs: Vec<BTreeMap<String, Value>>,
    /// The exception that ended the code.
    pub error: Option<CodeError>,
    /// Execution count of the kernel.
    pub execution_count: Option<u64>,
    /// True if a time limit ended the code.
    pub timed_out: bool,
    /// Remarks: a fresh kernel, lost state, dropped output.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Number of dropped bytes, only if there are any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated_bytes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CodeStatus {
    /// It finished.
    Ok,
    /// An exception ended it.
    Error,
    /// Its time limit ended it.
    TimedOut,
    /// Its limit on time without output ended it.
    IdleTimedOut,
    /// A request interrupted it.
    Interrupted,
    /// The process of its kernel ended.
    Died,
    /// It never began: its kernel was restarted or stopped.
    Aborted,
    /// Its end is unknown: keeper was restarted meanwhile.
    Lost,
}

/// An exception.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeError {
    /// Type of the exception.
    pub name: String,
    /// Message of the exception.
    pub message: String,
    /// Traceback without colours.
    pub traceback: Vec<String>,
}

/// A kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelView {
    /// Id of the kernel.
    pub kernel: String,
    /// Language of the kernel.
    pub language: Language,
    /// State of the kernel.
    pub state: KernelState,
    /// Number of queued executions.
    pub queued: u32,
    /// Count of the last execution.
    pub execution_count: u64,
    /// Path of the connection file for Jupyter clients in the sandbox.
    pub connection_file: String,
}

/// All kernels of a job, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelListView {
    /// The kernels.
    pub kernels: Vec<KernelView>,
}

/// An event of `POST /jobs/{id}/code` with `Accept: text/event-stream`: `started`, output, then one `done` or `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CodeEvent {
    /// The execution was accepted. A client whose connection is lost finds it again by its id.
    Started {
        /// Id of the execution.
        execution: String,
        /// Kernel that runs the code.
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
    /// The code displayed an output.
    Display {
        /// The output by MIME type.
        data: BTreeMap<String, Value>,
    },
    /// The value of the last expression.
    Result {
        /// The output by MIME type.
        data: BTreeMap<String, Value>,
    },
    /// An exception.
    Exception(CodeError),
    /// The next output replaces everything displayed so far.
    Clear,
    /// A remark.
    Note {
        /// A sentence.
        text: String,
    },
    /// Output was dropped here.
    Truncated {
        /// Number of dropped bytes.
        dropped_bytes: u64,
    },
    /// The execution ended. The last event.
    Done {
        /// How the execution ended.
        status: CodeStatus,
        /// Execution count of the kernel.
        execution_count: Option<u64>,
    },
    /// The sandbox was lost before the end. The last event.
    Error {
        /// Stable code in snake_case.
        code: String,
        /// The error in one sentence.
        message: String,
    },
}

impl CodeEvent {
    /// Returns the SSE field `event`.
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
