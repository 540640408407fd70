//! Messages between keeper and the spawner. One socket serves every keeper of a machine's life, so each
//! keeper has a session number of its own and ignores answers to another's questions.

use sandyard_protocol::ProcessId;
use serde::{Deserialize, Serialize};

use crate::process_host::{Command, RawExit};

/// Names a question: the keeper that asked, and which of its questions it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnerQuestion {
    /// Drawn at random by each keeper.
    pub(crate) session: u64,
    /// Counted by the keeper.
    pub(crate) number: u64,
}

/// A message from keeper to the spawner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnerRequest {
    /// Repeated in the answer.
    pub(crate) question: SpawnerQuestion,
    pub(crate) call: SpawnerCall,
}

/// A request that keeper may send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpawnerCall {
    /// Start a program; answered by `Spawned` or `Refused`. A descriptor that comes along is its standard input.
    Spawn(Command),
    /// Signal a process's group; answered by `Done`.
    Signal { id: ProcessId, signal: i32 },
    /// Signal the members of a process's group that neither catch nor ignore the signal; answered by `Done`.
    SignalDeaf { id: ProcessId, signal: i32 },
    /// Kill everything but the spawner; answered by `Done`.
    KillEverything,
    /// Drop the record of an ended process; answered by `Done`.
    Forget { id: ProcessId },
    /// List all followed processes; answered by `Roll`. Exits in the list are not sent again to this session.
    Roll,
}

/// A message from the spawner to keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpawnerMessage {
    /// The answer to a request.
    Answer { question: SpawnerQuestion, outcome: SpawnerOutcome },
    /// A followed process ended.
    Exit(RawExit),
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpawnerOutcome {
    /// The program runs. The descriptors follow in the order standard output, standard input, standard error.
    Spawned {
        /// Its pid in the job's namespace.
        pid: i32,
        /// True if standard input is among the descriptors.
        stdin: bool,
        /// True if standard error is among the descriptors.
        stderr: bool,
    },
    /// The request was carried out.
    Done,
    /// The request failed. A process that it had forked is killed.
    Refused {
        /// The attempted step, with its object.
        what: String,
        errno: i32,
    },
    /// Every process that the spawner follows, ended ones included.
    Roll(Vec<RollEntry>),
}

/// A process in the spawner's list, running or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RollEntry {
    pub(crate) id: ProcessId,
    /// Its pid in the job's namespace.
    pub(crate) pid: i32,
    /// Set once the process has ended.
    pub(crate) exit: Option<RawExit>,
}
