//! Consoles and start times of the sandboxes that this process started. A restart loses them, and nothing
//! depends on them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use parking_lot::{Mutex, MutexGuard};

use super::launcher::step::NativeStep;
use crate::driver::SandboxId;
use crate::host::console::Consoles;

/// Microseconds that each step of a start took.
type Phases = Vec<(NativeStep, u64)>;

#[derive(Debug, Default)]
pub(super) struct StartedSandboxes {
    consoles: Consoles,
    phases: Mutex<HashMap<SandboxId, Phases>>,
}

impl StartedSandboxes {
    pub(super) fn insert(&self, id: &SandboxId, console: OwnedFd, phases: Phases) {
        self.consoles.insert(id, console);
        self.all_phases().insert(id.clone(), phases);
    }

    /// Logs the console's text and forgets the sandbox.
    pub(super) fn remove(&self, id: &SandboxId) {
        self.consoles.remove(id);
        self.all_phases().remove(id);
    }

    /// Returns a guest's output so far.
    pub(super) fn console(&self, id: &SandboxId) -> Option<String> {
        self.consoles.said(id)
    }

    /// Returns the microseconds that each step took.
    pub(super) fn phases(&self, id: &SandboxId) -> Phases {
        self.all_phases().get(id).cloned().unwrap_or_default()
    }

    fn all_phases(&self) -> MutexGuard<'_, HashMap<SandboxId, Phases>> {
        self.phases.lock()
    }
}
