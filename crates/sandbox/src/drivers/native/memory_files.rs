//! Files in memory that are handed to a sandbox: its program, its configuration, its console.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use sandyard_protocol::BootConfig;

/// The guest's program, built with this crate for the static target.
static GUEST: &[u8] = include_bytes!(env!("SANDYARD_GUEST_BINARY"));
/// The program of the loop that works on tasks, built beside it.
static AGENT: &[u8] = include_bytes!(env!("SANDYARD_AGENT_BINARY"));
/// What a guest may say on its console, ever. It only speaks there when it can't start.
const CONSOLE_BYTES: u64 = 64 * 1024;

/// The guest's program, which nobody can change any more. One copy in memory serves every sandbox.
pub(super) fn program() -> io::Result<OwnedFd> {
    sealed("sandyard-guest", GUEST)
}

/// The loop's program, likewise.
pub(super) fn agent() -> io::Result<OwnedFd> {
    sealed("sandyard-agent", AGENT)
}

fn sealed(name: &str, program: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = match memfd_create(name, flags | MemfdFlags::EXEC) {
        // Kernels before 6.3 know no such flag and always allow execution.
        Err(rustix::io::Errno::INVAL) => memfd_create(name, flags)?,
        other => other?,
    };
    let mut file = File::from(fd);
    file.write_all(program)?;
    let fd = OwnedFd::from(file);
    fcntl_add_seals(&fd, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(fd)
}

/// A guest's configuration, at its start.
pub(super) fn boot(config: &BootConfig) -> io::Result<OwnedFd> {
    let fd = memfd_create("sandyard-boot", MemfdFlags::CLOEXEC)?;
    let file = File::from(fd);
    file.write_all_at(&serde_json::to_vec(config).map_err(io::Error::other)?, 0)?;
    Ok(file.into())
}

/// A console that can't grow beyond its size.
pub(super) fn console() -> io::Result<OwnedFd> {
    let fd = memfd_create("sandyard-console", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, CONSOLE_BYTES)?;
    fcntl_add_seals(&fd, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(fd)
}

/// What a guest said, for the host's log: hostile text, so without control characters.
pub(super) fn read_console(console: &OwnedFd) -> io::Result<String> {
    let file = File::from(console.try_clone()?);
    let mut bytes = vec![0; usize::try_from(CONSOLE_BYTES).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    Ok(text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect())
}
