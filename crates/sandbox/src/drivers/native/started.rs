//! What this process remembers of sandboxes that it started itself: their consoles, and what each step of their start took.
//! None of it survives a restart, and nothing depends on it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::launcher::step::Step;
use crate::driver::SandboxId;
use crate::parts::console::Consoles;

/// What a start took, step by step in microseconds.
type Phases = Vec<(Step, u64)>;

/// Sandboxes by name.
#[derive(Debug, Default)]
pub(super) struct Started {
    consoles: Consoles,
    phases: Mutex<HashMap<SandboxId, Phases>>,
}

impl Started {
    /// Remembers a sandbox.
    pub(super) fn insert(&self, id: &SandboxId, console: OwnedFd, phases: Phases) {
        self.consoles.insert(id, console);
        self.all_phases().insert(id.clone(), phases);
    }

    /// Writes what was said on the console to the log and forgets the sandbox.
    pub(super) fn remove(&self, id: &SandboxId) {
        self.consoles.remove(id);
        self.all_phases().remove(id);
    }

    /// What a guest has said so far.
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
