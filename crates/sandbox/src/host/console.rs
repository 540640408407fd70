//! The console of a guest that can't start: a file in memory of a fixed size.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::driver::SandboxId;

/// Size of a console in bytes. A guest writes there only when it can't start.
const CONSOLE_BYTES: u64 = 64 * 1024;
/// Line that a kernel prints whenever its machine ends in order.
const ORDERLY_END: &str = "reboot: Restarting system";

/// Returns a console that can't grow beyond its size.
pub(crate) fn make() -> io::Result<OwnedFd> {
    let fd = memfd_create("sandyard-console", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, CONSOLE_BYTES)?;
    // The guest holds this file. Without the seals it could fill the host's memory through it, or cut it
    // under a reader.
    fcntl_add_seals(&fd, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(fd)
}

/// Returns a guest's output in lines. The text is hostile, so other control characters are removed.
pub(crate) fn read(console: &OwnedFd) -> io::Result<String> {
    Ok(read_raw(console)?.lines().map(|line| tame(line) + "\n").collect())
}

/// Returns a guest's output without the lines that every guest prints.
fn unusual(console: &OwnedFd) -> io::Result<String> {
    let text = read_raw(console)?;
    let lines: Vec<_> = text.lines().filter(|line| !line.trim_end().ends_with(ORDERLY_END)).collect();
    Ok(tame(&lines.join(" ")))
}

fn tame(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Returns the output of a program of the host, unchanged.
pub(crate) fn read_raw(console: &OwnedFd) -> io::Result<String> {
    let file = File::from(console.try_clone()?);
    let mut bytes = vec![0; usize::try_from(CONSOLE_BYTES).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned())
}

/// The consoles of sandboxes that this process started itself, which explain a machine that died at once. A
/// restart loses them, and nothing depends on them.
#[derive(Debug, Default)]
pub(crate) struct Consoles(Mutex<HashMap<SandboxId, OwnedFd>>);

impl Consoles {
    pub(crate) fn insert(&self, id: &SandboxId, console: OwnedFd) {
        self.all().insert(id.clone(), console);
    }

    /// Logs a sandbox's output, if there is any of interest, and forgets the sandbox.
    pub(crate) fn remove(&self, id: &SandboxId) {
        let console = self.all().remove(id);
        let said = console.and_then(|console| unusual(&console).ok()).unwrap_or_default();
        if !said.trim().is_empty() {
            tracing::warn!(sandbox = %id, said, "console output of the guest");
        }
    }

    /// Returns a guest's output so far.
    pub(crate) fn said(&self, id: &SandboxId) -> Option<String> {
        self.all().get(id).and_then(|console| read(console).ok())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SandboxId, OwnedFd>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(said: &str) -> String {
        let console = make().unwrap();
        File::from(console.try_clone().unwrap()).write_all_at(said.as_bytes(), 0).unwrap();
        unusual(&console).unwrap()
    }

    #[test]
    fn lines_stay_and_other_control_characters_do_not() {
        let console = make().unwrap();
        File::from(console.try_clone().unwrap()).write_all_at(b"one\r\n\x1b[2Jtwo", 0).unwrap();
        assert_eq!(read(&console).unwrap(), "one\n [2Jtwo\n");
    }

    #[test]
    fn an_orderly_end_is_nothing_to_tell() {
        assert_eq!(told("[    4.08] reboot: Restarting system\r\n").trim(), "");
        assert_eq!(told("no disk\u{1b}[1m\n[ 4.1] reboot: Restarting system\n"), "no disk [1m");
    }

    /// R11: a write beyond the console's size fails.
    #[test]
    fn a_console_can_not_grow() {
        let console = File::from(make().unwrap());
        let last = usize::try_from(CONSOLE_BYTES).unwrap();
        console.write_all_at(&vec![b'x'; last], 0).unwrap();
        assert!(console.write_all_at(b"x", CONSOLE_BYTES).is_err());
        assert_eq!(read_raw(&console.into()).unwrap().len(), last);
    }
}
