//! Requirements on the host, checked before the first start. Each missing one is named with its remedy.

use std::path::{Path, PathBuf};

use crate::driver::DriverOpenError;
use crate::host::cgroup::CgroupLayout;
use crate::host::storage::disk;

/// Directories in which distributions install programs; PATH of a service often lacks sbin.
pub(crate) const PROGRAM_PLACES: [&str; 5] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin"];

/// Returns the path of a program, if it is installed.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    PROGRAM_PLACES.iter().map(|place| Path::new(place).join(name)).find(|path| path.is_file())
}

pub(crate) fn formatter() -> Result<(), DriverOpenError> {
    let lacking =
        |error: std::io::Error| DriverOpenError::unusable(error.to_string(), "apt install e2fsprogs");
    disk::formatter().map(drop).map_err(lacking)
}

/// Checks the devices and tools that mount disks.
pub(crate) fn mounted_disks() -> Result<(), DriverOpenError> {
    if !Path::new("/dev/loop-control").exists() {
        return Err(DriverOpenError::unusable("there is no /dev/loop-control", "modprobe loop"));
    }
    formatter()
}

/// Returns the control groups of the whole host.
pub(crate) fn control_groups() -> Result<CgroupLayout, DriverOpenError> {
    let fix = "mount control groups version 2: mount -t cgroup2 none /sys/fs/cgroup";
    CgroupLayout::detect().map_err(|error| DriverOpenError::unusable(error.to_string(), fix))
}
