//! What this process remembers of sandboxes that it started itself: their consoles, which explain a machine that died at once, and
//! what each step of their start took. None of it survives a restart, and nothing depends on it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::launcher::step::Step;
use super::memory_files;
use crate::driver::SandboxId;

/// Sandboxes by name.
#[derive(Debug, Default)]
pub(super) struct Started {
    sandboxes: Mutex<HashMap<SandboxId, Birth>>,
}

#[derive(Debug)]
struct Birth {
    console: OwnedFd,
    phases: Vec<(Step, u64)>,
}

impl Started {
    /// Remembers a sandbox.
    pub(super) fn insert(&self, id: &SandboxId, console: OwnedFd, phases: Vec<(Step, u64)>) {
        self.sandboxes().insert(id.clone(), Birth { console, phases });
    }

    /// Writes what was said on the console to the log and forgets the sandbox.
    pub(super) fn remove(&self, id: &SandboxId) {
        let birth = self.sandboxes().remove(id);
        let said =
            birth.and_then(|birth| memory_files::read_console(&birth.console).ok()).unwrap_or_default();
        if !said.is_empty() {
            tracing::warn!(sandbox = %id, said, "the guest spoke on its console");
        }
    }

    /// What a guest has said so far.
    pub(super) fn console(&self, id: &SandboxId) -> Option<String> {
        self.sandboxes().get(id).and_then(|birth| memory_files::read_console(&birth.console).ok())
    }

    /// What each step took, in microseconds.
    pub(super) fn phases(&self, id: &SandboxId) -> Vec<(Step, u64)> {
        self.sandboxes().get(id).map(|birth| birth.phases.clone()).unwrap_or_default()
    }

    fn sandboxes(&self) -> MutexGuard<'_, HashMap<SandboxId, Birth>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
