//! What guests said on their consoles, kept while this process knows them: it explains a machine that died at once.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use super::memory_files;
use crate::driver::SandboxId;

/// Consoles by sandbox.
#[derive(Debug, Default)]
pub(super) struct Consoles {
    open: Mutex<HashMap<SandboxId, OwnedFd>>,
}

impl Consoles {
    /// Keeps a console.
    pub(super) fn insert(&self, id: &SandboxId, console: OwnedFd) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), console);
    }

    /// Writes what was said to the log and forgets the console.
    pub(super) fn remove(&self, id: &SandboxId) {
        let console = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        let said = console.and_then(|console| memory_files::read_console(&console).ok()).unwrap_or_default();
        if !said.is_empty() {
            tracing::warn!(sandbox = %id, said, "the guest spoke on its console");
        }
    }

    /// What a guest has said so far.
    pub(super) fn read(&self, id: &SandboxId) -> Option<String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(id).and_then(|console| memory_files::read_console(console).ok())
    }
}
