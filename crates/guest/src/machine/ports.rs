//! Serial lines of the machine, by the name that the driver gave them.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::boot::{BootFailure, Step as _};

const PORTS: &str = "/sys/class/virtio-ports";

/// The device of a line.
pub(super) fn device(name: &str) -> io::Result<PathBuf> {
    for entry in fs::read_dir(PORTS)? {
        let entry = entry?;
        let told = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if told.trim() == name {
            return Ok(Path::new("/dev").join(entry.file_name()));
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no serial line is named {name}")))
}

/// Opens a line for good: only one process can have it open.
pub(super) fn open(name: &str) -> Result<OwnedFd, BootFailure> {
    let path = device(name).step("serial line", name)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(&path, flags, Mode::empty()).step("serial line", path.display())
}
