//! The device nodes a sandbox gets: clones of the host's own, verified before use.
//!
//! The nodes come from the host's /dev by descriptor, never from the image, so an image can't replace them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, FileType};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use sandyard_protocol::DEVICES;

use crate::host::sys::mounts;

/// A device node, cloned and not yet mounted.
pub(super) struct Device {
    pub(super) name: &'static str,
    /// Detached mount of the node.
    pub(super) mount: OwnedFd,
}

/// Clones each node and checks that it is the device it claims to be.
pub(super) fn collect() -> io::Result<Vec<Device>> {
    DEVICES.into_iter().map(|(name, major, minor)| clone_node(name, major, minor)).collect()
}

fn clone_node(name: &'static str, major: u32, minor: u32) -> io::Result<Device> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    // The descriptor pins the node, so the check below and the mount later see the same file.
    let mount = open_tree(CWD, format!("/dev/{name}"), flags)?;
    let stat = rustix::fs::fstat(&mount)?;
    let genuine = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && rustix::fs::major(stat.st_rdev) == major
        && rustix::fs::minor(stat.st_rdev) == minor;
    if !genuine {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/dev/{name} is not device {major}:{minor}"),
        ));
    }
    // Read-only protects the node's mode and times; it does not stop writes to the device.
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    mounts::restrict(mount.as_fd(), flags, None)?;
    Ok(Device { name, mount })
}
