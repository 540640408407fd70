//! Where a guest's first process speaks when it can't start: a file in memory that can't grow.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::driver::SandboxId;

/// What a guest may say on its console, ever. It only speaks there when it can't start.
const BYTES: u64 = 64 * 1024;

/// A console that can't grow beyond its size.
pub(crate) fn make() -> io::Result<OwnedFd> {
    let fd = memfd_create("sandyard-console", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, BYTES)?;
    fcntl_add_seals(&fd, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(fd)
}

/// What a guest said, for the host's log: hostile text, so without control characters.
pub(crate) fn read(console: &OwnedFd) -> io::Result<String> {
    let text = read_raw(console)?;
    Ok(text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect())
}

/// What was said there by a program of the host, as it is.
pub(crate) fn read_raw(console: &OwnedFd) -> io::Result<String> {
    let file = File::from(console.try_clone()?);
    let mut bytes = vec![0; usize::try_from(BYTES).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned())
}

/// The consoles of sandboxes that this process started itself, which explain a machine that died at once. None of it
/// survives a restart, and nothing depends on it.
#[derive(Debug, Default)]
pub(crate) struct Consoles(Mutex<HashMap<SandboxId, OwnedFd>>);

impl Consoles {
    /// Remembers a sandbox.
    pub(crate) fn insert(&self, id: &SandboxId, console: OwnedFd) {
        self.all().insert(id.clone(), console);
    }

    /// Writes what was said to the log and forgets the sandbox.
    pub(crate) fn remove(&self, id: &SandboxId) {
        let console = self.all().remove(id);
        let said = console.and_then(|console| read(&console).ok()).unwrap_or_default();
        if !said.is_empty() {
            tracing::warn!(sandbox = %id, said, "the guest spoke on its console");
        }
    }

    /// What a guest has said so far.
    pub(crate) fn said(&self, id: &SandboxId) -> Option<String> {
        self.all().get(id).and_then(|console| read(console).ok())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SandboxId, OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// R11: a guest that says more than there is room for is heard so far and no further.
    #[test]
    fn what_is_said_beyond_it_is_lost() {
        let console = make().unwrap();
        let mut guest = File::from(console.try_clone().unwrap());
        let said = vec![b'x'; usize::try_from(2 * BYTES).unwrap()];
        assert!(guest.write_all(&said).is_err());
        assert_eq!(guest.metadata().unwrap().len(), BYTES);
        assert_eq!(read_raw(&console).unwrap().len() as u64, BYTES);
    }
}
