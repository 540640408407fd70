//! Processes: start, input, signals, terminal size, end.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Names a process within one sandbox; chosen by keeper and never reused. The job's own process is `main`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProcessId(pub String);

impl ProcessId {
    /// The process that is the job.
    pub fn main() -> Self {
        Self("main".into())
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What to run and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartProcess {
    /// Program and arguments; the program is looked up on the guest's PATH.
    pub argv: Vec<String>,
    /// Working directory, absolute or relative to `/workspace`; resolved inside the machine.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Added to the machine's default environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// With a terminal of this size; standard error is then part of standard output.
    #[serde(default)]
    pub terminal: Option<TerminalSize>,
    /// Whether standard input is a pipe that will be written; otherwise it is empty.
    #[serde(default)]
    pub stdin: bool,
    /// Ends the process after this long.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Ends the process after this long without output.
    #[serde(default)]
    pub idle_timeout_ms: Option<u64>,
    /// Whether the process ends when the stream that started it is lost; otherwise it goes on and can be attached to.
    #[serde(default)]
    pub ends_with_stream: bool,
}

/// A terminal's size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Width.
    pub columns: u16,
    /// Height.
    pub rows: u16,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The code it exited with; 128 + the signal's number if a signal ended it, as shells say it.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Who ended it.
    pub reason: EndReason,
}

/// Who ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Itself, or something inside the machine.
    Own,
    /// The time limit.
    Timeout,
    /// The limit on time without output.
    IdleTimeout,
    /// A request to end it.
    Cancelled,
}

/// Sent by keeper on a process stream, beside the data frames that carry an `OutputChunk` each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessEvent {
    /// Output before this offset is no longer kept.
    Lost {
        /// Bytes that can't be replayed.
        bytes: u64,
    },
    /// The process ended and all its output was sent. The last message of the stream.
    Exited(Exit),
}

/// Sent by the host on a process stream. Data frames are bytes for standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessInput {
    /// No more input will come.
    Close,
    /// The terminal has a new size.
    Resize(TerminalSize),
    /// Sends a signal to the process's group.
    Signal(i32),
}

/// One row of the process list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Its name.
    pub id: ProcessId,
    /// Its pid inside the machine.
    pub pid: i32,
    /// What was started.
    pub argv: Vec<String>,
    /// Set once it has ended.
    pub exit: Option<Exit>,
}
