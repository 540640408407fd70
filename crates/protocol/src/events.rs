//! The event stream. The guest opens one on every link, and it resumes where the host's store ends.
//!
//! guest: `GuestRequest::Events` · host: `Resume` · then the guest sends `SequencedEvent` messages and output
//! data frames (`OutputChunk`) of the process `main`, and the host sends an `Ack` message whenever it has committed some.
//! Output needs no numbers of its own: its offsets make it idempotent. An event about the end of the
//! process comes after all its output.

use serde::{Deserialize, Serialize};

use crate::{Exit, OutputOffsets};

/// The first message on a stream that the guest opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum GuestRequest {
    /// The event stream; at most one on a link.
    Events,
    /// A connection that a program made to the machine's proxy. Raw bytes follow in both directions, without frames.
    Egress,
    /// A call of a model. A `ModelCall` message of at most `limits::MODEL_CALL_BYTES` follows, and the host answers with `ModelEvent`
    /// messages until `Done` or `Failed`. The guest keeps its side open until then: closing it calls the question off.
    Model,
    /// The journal of a task: `DeskRequest` messages follow. A few may be open at once; the newest one counts.
    Desk,
}

/// The end of the host's store. The guest sends the events and the output that follow it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Sequence number of the first event the host lacks; the first of all is 1.
    pub next_sequence: u64,
    /// Output that the host has.
    pub output: OutputOffsets,
}

/// Tells keeper that everything up to here is committed and may be forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Highest committed sequence number.
    pub sequence: u64,
    /// Offsets up to which the output is committed.
    pub output: OutputOffsets,
}

/// An event with its sequence number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequencedEvent {
    /// Starts at 1 and rises by one.
    pub sequence: u64,
    /// Milliseconds since the Unix epoch by the machine's clock. Only for display: the clock may be wrong.
    pub at_ms: i64,
    /// The event, as the guest reports it.
    pub event: GuestEvent,
}

/// An event that a guest reports without being asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GuestEvent {
    /// The job's process runs.
    Started,
    /// The job is over.
    Ended {
        /// How its process ended.
        exit: Exit,
    },
    /// Keeper died and was restarted; running processes continued.
    KeeperRestarted,
    /// A note for people.
    Note {
        /// One sentence, cut to `limits::TEXT_BYTES`.
        text: String,
    },
}
