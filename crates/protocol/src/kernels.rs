//! Kernels: persistent interpreters that run one piece of code after another and keep their state in between.
//!
//! A kernel belongs to the machine and an execution belongs to keeper, not to the stream that requested it. A client whose
//! stream was lost attaches to its execution again by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Exit, OutputStream, RequestKey};

/// The name of a kernel within one sandbox; never reused. The first kernel of a language has the name of the language.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KernelId(pub String);

impl fmt::Display for KernelId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The name of an execution within one sandbox; never reused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutionId(pub String);

impl fmt::Display for ExecutionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The language of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CodeLanguage))]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Python, by ipykernel.
    Python,
    /// TypeScript, by Deno.
    Typescript,
    /// JavaScript, by Deno.
    Javascript,
    /// Bash.
    Bash,
}

impl Language {
    /// Every language, in the order in which listings show them.
    pub const ALL: [Self; 4] = [Self::Python, Self::Typescript, Self::Javascript, Self::Bash];

    /// The name in requests and file names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Typescript => "typescript",
            Self::Javascript => "javascript",
            Self::Bash => "bash",
        }
    }

    /// Extensions of files with code in this language, without the dot.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["py"],
            Self::Typescript => &["ts", "tsx"],
            Self::Javascript => &["js", "mjs"],
            Self::Bash => &["sh", "bash"],
        }
    }

    /// Returns the language of files with this extension.
    pub fn of_extension(extension: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.extensions().contains(&extension))
    }
}

/// The state of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum KernelState {
    /// The process is starting.
    Starting,
    /// The kernel waits for code.
    Idle,
    /// The kernel runs code.
    Busy,
    /// The process ended; the next code starts a new one.
    Dead,
}

/// One row of the kernel list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInfo {
    /// The name of the kernel.
    pub id: KernelId,
    /// The language that the kernel runs.
    pub language: Language,
    /// State of the kernel.
    pub state: KernelState,
    /// Executions that wait for the kernel.
    pub queued: u32,
    /// The execution count that the kernel reported last.
    pub execution_count: u64,
    /// Path of the Jupyter connection file inside the machine.
    pub connection_file: String,
}

/// A piece of code to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execute {
    /// The language of the code.
    pub language: Language,
    /// The kernel; if not given, the first one of the language, which is started on first use.
    #[serde(default)]
    pub kernel: Option<KernelId>,
    /// The code, at most `limits::CODE_BYTES`.
    pub code: String,
    /// Ends the execution after this time, counted from the request.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Ends the execution after this time without output, counted from its start.
    #[serde(default)]
    pub idle_timeout_ms: Option<u64>,
    /// True if the execution is interrupted when the stream that requested it is lost. Otherwise it continues and can be attached
    /// to.
    #[serde(default)]
    pub interrupt_on_loss: bool,
    /// Makes a repeat of this request attach to the execution that the first one started.
    #[serde(default)]
    pub key: Option<RequestKey>,
}

/// An execution, in the reply to `Execute` and `AttachExecution`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionInfo {
    /// The name of the execution.
    pub id: ExecutionId,
    /// The kernel that runs it.
    pub kernel: KernelId,
    /// The language of the code.
    pub language: Language,
}

/// An event of an execution, in order. `Output` is followed by data frames with exactly the bytes of its parts. `Done` is the
/// last message of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelEvent {
    /// Text on standard output or standard error; at most `limits::DATA_BYTES`.
    Text {
        /// The stream that the code wrote to.
        stream: OutputStream,
        /// The text, cut between characters.
        text: String,
    },
    /// A rich output in one or more MIME types, whose bytes follow.
    Output {
        /// Why the kernel sent it.
        kind: OutputKind,
        /// The MIME types, in the order of their bytes.
        parts: Vec<OutputPart>,
    },
    /// The code failed with this exception.
    Error(ExecutionError),
    /// Discards the output so far: the output that follows replaces it.
    Clear,
    /// A note for people.
    Note {
        /// One sentence, cut to `limits::TEXT_BYTES`.
        text: String,
    },
    /// Output was left out here because there was too much.
    Truncated {
        /// Bytes that were left out.
        bytes: u64,
    },
    /// The execution ended. The last message of the stream.
    Done(ExecutionEnd),
}

/// Why a kernel sent a rich output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputKind {
    /// The code displayed it.
    Display,
    /// It is the value of the last expression.
    Result,
}

/// One MIME type of a rich output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPart {
    /// MIME type, such as `image/png`.
    pub mime: String,
    /// Bytes of the value as JSON: a string for text and base64, any value for JSON types.
    pub bytes: u64,
}

/// An exception of the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionError {
    /// The type of the exception.
    pub name: String,
    /// The message of the exception.
    pub value: String,
    /// Lines of the traceback, without colours.
    pub traceback: Vec<String>,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionEnd {
    /// The kind of its end.
    pub outcome: Outcome,
    /// The kernel's execution count, if it reported one.
    pub execution_count: Option<u64>,
    /// How the kernel's process ended, if it ended meanwhile.
    pub exit: Option<Exit>,
}

/// The outcome of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The code ran to its end.
    Ok,
    /// The code failed with an exception, which an `Error` event reported.
    Error,
    /// The time limit ended it.
    TimedOut,
    /// The limit on time without output ended it.
    IdleTimedOut,
    /// A request interrupted it.
    Interrupted,
    /// The kernel's process ended.
    Died,
    /// The kernel was restarted or stopped before the code ran.
    Aborted,
    /// Unknown, because keeper was restarted meanwhile.
    Lost,
}
