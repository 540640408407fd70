//! Processes: how they start, their input and signals, and how they end.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::OutputOffsets;

/// The name of a process within one sandbox. Keeper chooses it and never reuses it. The job's own process is `main`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProcessId(pub String);

impl ProcessId {
    /// The name of the job's own process.
    pub fn main() -> Self {
        Self("main".into())
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A program to start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartProcess {
    /// Program and arguments. The program is looked up on the guest's PATH.
    pub argv: Vec<String>,
    /// Working directory inside the machine, absolute or relative to `/workspace`.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Variables added to the machine's default environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Gives the process a terminal of this size. Standard error is then part of standard output.
    #[serde(default)]
    pub terminal: Option<TerminalSize>,
    /// True if the host will write to standard input; otherwise it is empty.
    #[serde(default)]
    pub stdin: bool,
    /// Ends the process after this time.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Ends the process after this time without output.
    #[serde(default)]
    pub idle_timeout_ms: Option<u64>,
    /// True if the process ends when the stream that started it is lost. Otherwise it continues and can be attached to.
    #[serde(default)]
    pub ends_with_stream: bool,
    /// Ends the process when no stream was attached to it for this long. Time without a link to a server does not count.
    #[serde(default)]
    pub linger_ms: Option<u64>,
    /// True if the process ends when the stream that started it is lost before it closed standard input: the rest of the input can
    /// never arrive.
    #[serde(default)]
    pub needs_whole_input: bool,
    /// Makes a repeat of this request attach to the process that the first one started.
    #[serde(default)]
    pub key: Option<RequestKey>,
}

/// A caller's idempotency key: the same key and body start a thing once. Keeper keeps keys, because they must outlive the server and
/// be stored in one step with the start. Both parts are hashes, so the machine learns nothing that the caller wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    /// SHA-256 of the key in hexadecimal.
    pub key_sha256: String,
    /// SHA-256 of the request in hexadecimal. A known key with another body is rejected with `AlreadyExists`.
    pub body_sha256: String,
}

/// A terminal's size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Width of the terminal in characters.
    pub columns: u16,
    /// Height of the terminal in lines.
    pub rows: u16,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code; 128 plus the signal's number if a signal ended the process, as in shells.
    pub code: i32,
    /// The signal that ended the process.
    pub signal: Option<i32>,
    /// What ended the process.
    pub reason: EndReason,
}

/// What ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The process itself, or something inside the machine.
    Own,
    /// The limit on its running time.
    Timeout,
    /// The limit on time without output.
    IdleTimeout,
    /// A request to end the process.
    Cancelled,
}

/// A message of keeper on a process stream, between data frames that carry an `OutputChunk` each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessEvent {
    /// The oldest output is no longer available.
    Lost {
        /// Bytes that can't be replayed.
        bytes: u64,
    },
    /// The process ended and all its output was sent. The last message of the stream.
    Exited(Exit),
}

/// A message of the host on a process stream. Data frames carry bytes for standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessInput {
    /// Closes standard input. On a terminal, types the end-of-file character.
    Close,
    /// Changes the size of the terminal.
    Resize(TerminalSize),
    /// Sends a signal to the process's group.
    Signal(i32),
}

/// One row of the process list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// The name of the process.
    pub id: ProcessId,
    /// The process id inside the machine.
    pub pid: i32,
    /// The program and its arguments, as they were requested; cut after `limits::LISTED_ARGUMENT_BYTES`.
    pub argv: Vec<String>,
    /// Set once the process has ended.
    pub exit: Option<Exit>,
    /// True if the process has a terminal.
    #[serde(default)]
    pub terminal: bool,
    /// Bytes that the process has written so far.
    #[serde(default)]
    pub output: OutputOffsets,
    /// In the reply to `StartProcess`: true if an earlier request with the same key started the process.
    #[serde(default)]
    pub repeated: bool,
}
