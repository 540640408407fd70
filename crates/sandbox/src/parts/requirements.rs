//! What these parts need of a host, looked at before anything is tried. Each lack is told with what a person can do about it.

use std::path::Path;

use super::cgroup::Layout;
use super::disk;
use crate::driver::OpenError;

/// What making disks needs.
pub(crate) fn formatter() -> Result<(), OpenError> {
    let lacking = |error: std::io::Error| OpenError::unusable(error.to_string(), "apt install e2fsprogs");
    disk::formatter().map(drop).map_err(lacking)
}

/// What mounting disks needs too.
pub(crate) fn mounted_disks() -> Result<(), OpenError> {
    if !Path::new("/dev/loop-control").exists() {
        return Err(OpenError::unusable("there is no /dev/loop-control", "modprobe loop"));
    }
    formatter()
}

/// The control groups of the whole host.
pub(crate) fn control_groups() -> Result<Layout, OpenError> {
    let fix = "mount control groups version 2: mount -t cgroup2 none /sys/fs/cgroup";
    Layout::detect().map_err(|error| OpenError::unusable(error.to_string(), fix))
}
