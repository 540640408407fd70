//! Consoles and start times of the sandboxes that this process started. They don't survive a restart, and nothing depends on
//! them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::launcher::step::NativeStep;
use crate::driver::SandboxId;
use crate::host::console::Consoles;

/// Duration of each step of a start, in microseconds.
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

    /// Writes what was said on the console to the log and forgets the sandbox.
    pub(super) fn remove(&self, id: &SandboxId) {
        self.consoles.remove(id);
        self.all_phases().remove(id);
    }

    /// Returns a guest's output so far.
    pub(super) fn console(&self, id: &SandboxId) -> Option<String> {
        self.consoles.said(id)
    }

    /// What each step took, in microseconds.
    pub(super) fn phases(&self, id: &SandboxId) -> Phases {
        self.all_phases().get(id).cloned().unwrap_or_default()
    }

    fn all_phases(&self) -> MutexGuard<'_, HashMap<SandboxId, Phases>> {
        self.phases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
