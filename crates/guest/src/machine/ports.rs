//! Serial lines of the machine, by the name that the driver gave them.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::document::wait_until;
use crate::boot::{BootFailure, BootStep as _};

const PORTS: &str = "/sys/class/virtio-ports";

/// The device of a line. Lines get their names some time after their driver was loaded.
pub(super) fn device(name: &str) -> io::Result<PathBuf> {
    let mut found = None;
    wait_until(|| {
        found = find(name);
        found.is_some()
    })?;
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn find(name: &str) -> Option<PathBuf> {
    let is_named = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("name")).is_ok_and(|told| told.trim() == name)
    };
    let entry = fs::read_dir(PORTS).ok()?.flatten().find(is_named)?;
    Some(Path::new("/dev").join(entry.file_name()))
}

/// Opens a line for good: only one process can have it open.
pub(super) fn open(name: &str) -> Result<OwnedFd, BootFailure> {
    let path = device(name).step("serial line", name)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(&path, flags, Mode::empty()).step("serial line", path.display())
}
