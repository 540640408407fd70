//! Writes a guest's configuration to a file in memory, which the guest inherits.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};
use sandyard_protocol::BootConfig;

/// Returns a memfd with the configuration as JSON, its position at the start.
pub(super) fn make(config: &BootConfig) -> io::Result<OwnedFd> {
    let fd = memfd_create("sandyard-boot", MemfdFlags::CLOEXEC)?;
    let file = File::from(fd);
    // `write_all_at` leaves the position at 0, so the guest reads from the beginning without a seek.
    file.write_all_at(&serde_json::to_vec(config).map_err(io::Error::other)?, 0)?;
    Ok(file.into())
}
