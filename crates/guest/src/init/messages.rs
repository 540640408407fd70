//! What keeper and init say to each other. Init answers questions and never speaks first.

use sandyard_protocol::ProcessId;
use serde::{Deserialize, Serialize};

/// From keeper to init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HoldRequest {
    /// Keep these descriptors beyond keeper's death; not answered. The order is that of [`HoldReply::Held`].
    Hold {
        /// Whose.
        id: ProcessId,
    },
    /// Close what is held for this process; not answered.
    Release {
        /// Which.
        id: ProcessId,
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
    /// What is held for one process, with its descriptors: first the memory file in which keeper's predecessor
    /// described them, then those it describes. Init doesn't look into it.
    Held {
        /// Whose.
        id: ProcessId,
    },
    /// There is no more.
    End,
}
