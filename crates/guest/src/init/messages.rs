//! Messages between keeper and init. Init answers requests and never speaks first.

use sandyard_protocol::ProcessId;
use serde::{Deserialize, Serialize};

/// Names a set of descriptors of a process. Input and output are held apart, because input can end long before output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StreamPart {
    /// The memory file in which keeper described the process, standard output, and standard error if there is one.
    Output,
    /// The write end of standard input, if the process has a pipe there.
    Input,
}

/// A message from keeper to init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HoldRequest {
    /// Keep these descriptors beyond keeper's death; not answered.
    Hold { id: ProcessId, part: StreamPart },
    /// Close these descriptors; not answered.
    Release { id: ProcessId, part: StreamPart },
    /// Send copies of the `index`th held descriptors; answered.
    Show {
        /// From 0 up, until the answer is `End`.
        index: usize,
    },
}

/// A message from init to keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HoldReply {
    /// One part of the descriptors of one process. Init does not look into any of them.
    Held { id: ProcessId, part: StreamPart },
    /// The index is beyond the last part.
    End,
}
