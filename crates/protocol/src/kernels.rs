//! Kernels: persistent interpreters that run one piece of code after another and keep their state in between.
//!
//! A kernel belongs to the machine and an execution to keeper, not to the stream that asked for it: streams come and
//! go, and a client that was lost attaches to its execution again by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Exit, OutputStream};

/// Names a kernel within one sandbox; never reused. The first of each language is named as the language.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KernelId(pub String);

impl fmt::Display for KernelId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Names an execution within one sandbox; never reused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutionId(pub String);

impl fmt::Display for ExecutionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a kernel understands.
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
}

/// What a kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum KernelState {
    /// Its process is on its way.
    Starting,
    /// It waits for code.
    Idle,
    /// It runs code.
    Busy,
    /// Its process is gone; the next code gets a fresh one.
    Dead,
}

/// One row of the kernel list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInfo {
    /// Its name.
    pub id: KernelId,
    /// What it understands.
    pub language: Language,
    /// What it does.
    pub state: KernelState,
    /// Pieces of code that wait for it.
    pub queued: u32,
    /// The count it gave its last execution.
    pub execution_count: u64,
    /// Where others find how to connect to it, inside the machine.
    pub connection_file: String,
}

/// A piece of code to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execute {
    /// What the code is.
    pub language: Language,
    /// In which kernel; the language's first if not given, made on first use.
    #[serde(default)]
    pub kernel: Option<KernelId>,
    /// The code.
    pub code: String,
    /// Ends it after this long, from when it is asked for.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Ends it after this long without output, from when it begins.
    #[serde(default)]
    pub idle_timeout_ms: Option<u64>,
    /// Whether it is interrupted when the stream that asked for it is lost; otherwise it goes on and can be attached to.
    #[serde(default)]
    pub interrupt_on_loss: bool,
}

/// An execution, as the answer to `Execute` and `AttachExecution`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionInfo {
    /// Its name.
    pub id: ExecutionId,
    /// Where it runs.
    pub kernel: KernelId,
    /// What the code is.
    pub language: Language,
}

/// What an execution brings, in order. `Output` is followed by data frames of exactly the bytes of its parts; `Done` is the
/// last message of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelEvent {
    /// Text on standard output or standard error; at most `limits::DATA_BYTES`.
    Text {
        /// Which.
        stream: OutputStream,
        /// The text.
        text: String,
    },
    /// Something to show in several forms, whose bytes follow.
    Output {
        /// Why it came.
        kind: OutputKind,
        /// Its forms.
        parts: Vec<OutputPart>,
    },
    /// The code failed.
    Error(ExecutionError),
    /// What was shown so far is to be replaced by what comes.
    Clear,
    /// A sentence for a person.
    Note {
        /// The sentence.
        text: String,
    },
    /// So many bytes of output were left out here, because there was too much of it.
    Truncated {
        /// How many.
        bytes: u64,
    },
    /// It is over.
    Done(ExecutionEnd),
}

/// Why an output came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputKind {
    /// The code showed it.
    Display,
    /// It is the value of the last expression.
    Result,
}

/// One form of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPart {
    /// MIME type.
    pub mime: String,
    /// Bytes of its value as JSON: a string for text and base64, anything for JSON types.
    pub bytes: u64,
}

/// An exception.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionError {
    /// Its type.
    pub name: String,
    /// What it says.
    pub value: String,
    /// Where it came from, without colours.
    pub traceback: Vec<String>,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionEnd {
    /// How.
    pub outcome: Outcome,
    /// The kernel's own count, if it told.
    pub execution_count: Option<u64>,
    /// How the kernel's process ended, if it did meanwhile.
    pub exit: Option<Exit>,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// To its end.
    Ok,
    /// By an exception, told in an `Error` before.
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
    /// Nobody knows: keeper was restarted meanwhile.
    Lost,
}
