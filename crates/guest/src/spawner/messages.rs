//! What keeper and spawner say to each other. One socket serves every keeper of a machine's life, so each
//! keeper has a session number of its own and ignores answers to another's questions.

use sandyard_protocol::ProcessId;
use serde::{Deserialize, Serialize};

use crate::process_host::{Command, RawExit};

/// Names a question: the keeper that asked, and which of its questions it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Drawn at random by each keeper.
    pub(crate) session: u64,
    /// Counted by it.
    pub(crate) number: u64,
}

/// From keeper to spawner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Repeated in the answer.
    pub(crate) question: Question,
    /// What is wanted.
    pub(crate) call: Call,
}

/// What keeper may want of the spawner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Call {
    /// Start a program; answered by `Spawned` or `Refused`. A descriptor that comes along is its standard input.
    Spawn(Command),
    /// Signal a process's group; answered by `Done`.
    Signal {
        /// Which.
        id: ProcessId,
        /// Number of the signal.
        signal: i32,
    },
    /// Kill everything but the spawner; answered by `Done`.
    KillEverything,
    /// Drop what is kept of an ended process; answered by `Done`.
    Forget {
        /// Which.
        id: ProcessId,
    },
    /// List what is known; answered by `Roll`. Exits in the list are not told again to this session.
    Roll,
}

/// From spawner to keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// The answer to a request.
    Answer {
        /// Which request.
        question: Question,
        /// How it went.
        outcome: Outcome,
    },
    /// A followed process ended.
    Exit(RawExit),
}

/// How a request went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The program runs. The descriptors follow in the order standard output, standard input, standard error.
    Spawned {
        /// Its pid in the job's namespace.
        pid: i32,
        /// Whether standard input is among the descriptors.
        stdin: bool,
        /// Whether standard error is among the descriptors.
        stderr: bool,
    },
    /// It is done.
    Done,
    /// It can't be done.
    Refused {
        /// What was tried, with its object.
        what: String,
        /// Why.
        errno: i32,
    },
    /// All followed processes.
    Roll(Vec<Entry>),
}

/// One followed process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) id: ProcessId,
    /// Its pid in the job's namespace.
    pub(crate) pid: i32,
    /// Set once it ended.
    pub(crate) exit: Option<RawExit>,
}
