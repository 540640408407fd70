//! How far the output of background commands was shown, so that the next look starts there.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use sandyard_protocol::{OutputOffsets, ProcessId};

/// Processes whose position is remembered. The oldest name is forgotten first; its output is then shown from the start.
const MAX_POSITIONS: usize = 64;

/// For each background process, the output that the model has read.
#[derive(Debug, Default)]
pub(crate) struct OutputPositions(Mutex<BTreeMap<ProcessId, OutputOffsets>>);

impl OutputPositions {
    /// Removes and returns the position in a process's output; the start if nothing was shown.
    pub(crate) fn take(&self, process: &ProcessId) -> OutputOffsets {
        self.0.lock().remove(process).unwrap_or_default()
    }

    /// Stores the position from which the next look at this process continues.
    pub(crate) fn set(&self, process: ProcessId, position: OutputOffsets) {
        let mut positions = self.0.lock();
        if positions.len() >= MAX_POSITIONS {
            positions.pop_first();
        }
        positions.insert(process, position);
    }
}
