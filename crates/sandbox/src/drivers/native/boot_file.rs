//! A guest's configuration as a file in memory, which it inherits.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};
use sandyard_protocol::BootConfig;

/// The configuration, at its start.
pub(super) fn make(config: &BootConfig) -> io::Result<OwnedFd> {
    let fd = memfd_create("sandyard-boot", MemfdFlags::CLOEXEC)?;
    let file = File::from(fd);
    file.write_all_at(&serde_json::to_vec(config).map_err(io::Error::other)?, 0)?;
    Ok(file.into())
}
