//! What keeper and init say to each other. Init answers questions and never speaks first.

use sandyard_protocol::ProcessId;
use serde::{Deserialize, Serialize};

/// Which descriptors of a process: they are held apart, because input can end long before output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// The memory file in which keeper described the process, standard output, and standard error if there is one.
    Output,
    /// Standard input.
    Input,
}

/// From keeper to init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HoldRequest {
    /// Keep these descriptors beyond keeper's death; not answered.
    Hold {
        /// Whose.
        id: ProcessId,
        /// Which of its.
        part: Part,
    },
    /// Close what is held; not answered.
    Release {
        /// Whose.
        id: ProcessId,
        /// Which of its.
        part: Part,
    },
    /// Hand over the `index`th of what is held; answered.
    Show {
        /// From 0 up, until the answer is `End`.
        index: usize,
    },
}

/// From init to keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HoldReply {
    /// One part of what is held for one process, with its descriptors. Init doesn't look into any of them.
    Held {
        /// Whose.
        id: ProcessId,
        /// Which of its.
        part: Part,
    },
    /// There is no more.
    End,
}
