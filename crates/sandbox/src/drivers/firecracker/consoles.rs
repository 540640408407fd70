//! What this process remembers of machines that it started itself: their consoles, which explain one that died at once. None of
//! it survives a restart, and nothing depends on it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver::SandboxId;
use crate::parts::console;

/// Consoles by name of the sandbox.
#[derive(Debug, Default)]
pub(super) struct Consoles {
    consoles: Mutex<HashMap<SandboxId, OwnedFd>>,
}

impl Consoles {
    /// Remembers a console.
    pub(super) fn insert(&self, id: &SandboxId, console: OwnedFd) {
        self.consoles().insert(id.clone(), console);
    }

    /// Forgets a console.
    pub(super) fn remove(&self, id: &SandboxId) {
        self.consoles().remove(id);
    }

    /// What was said on it so far, by Firecracker, the kernel and the guest.
    pub(super) fn read(&self, id: &SandboxId) -> Option<String> {
        self.consoles().get(id).and_then(|console| console::read(console).ok())
    }

    fn consoles(&self) -> MutexGuard<'_, HashMap<SandboxId, OwnedFd>> {
        self.consoles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
