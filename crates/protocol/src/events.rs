//! The event stream: opened by the guest on every link, resumed where the host's store ends.
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
    /// A program's connection to the machine's proxy. Raw bytes follow, no frames, both ways.
    Egress,
    /// A call of a model. A `ModelCall` message of at most `limits::MODEL_CALL_BYTES` follows, and the host answers with `ModelEvent`
    /// messages until `Done` or `Failed`. The guest keeps its side open until then: closing it calls the question off.
    Model,
    /// The desk of a task: see `DeskRequest`. At most a few at once; the newest counts.
    Desk,
}

/// Where the host's committed knowledge ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Sequence number of the first event the host lacks; the first of all is 1.
    pub next_sequence: u64,
    /// Output the host has.
    pub output: OutputOffsets,
}

/// Everything up to here is committed; keeper may forget it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Highest committed sequence number.
    pub sequence: u64,
    /// Committed output.
    pub output: OutputOffsets,
}

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequencedEvent {
    /// Rises by one from 1.
    pub sequence: u64,
    /// Milliseconds since the epoch, by the machine's clock; for show only.
    pub at_ms: i64,
    /// What happened.
    pub event: GuestEvent,
}

/// What a guest reports of its own accord.
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
    /// Keeper died and was started again; running processes went on.
    KeeperRestarted,
    /// Something worth telling a person.
    Note {
        /// One sentence.
        text: String,
    },
}
