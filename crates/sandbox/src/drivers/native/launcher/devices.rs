//! The device nodes a sandbox gets: its own where the host's root can make them, otherwise clones of the host's,
//! verified before use.
//!
//! Clones come from the host's /dev by descriptor, never from the image, so an image can't replace them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, FileType};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use sandyard_protocol::DEVICES;

use crate::host::storage::devices;
use crate::host::sys::mounts;

/// Device nodes of a machine.
pub(super) enum MachineDevices {
    /// A whole /dev with nodes of the sandbox's own, a detached mount.
    Own(OwnedFd),
    /// The host's nodes.
    Hosts(Vec<HostNode>),
}

/// A device node of the host, cloned and not yet mounted.
pub(super) struct HostNode {
    pub(super) name: &'static str,
    /// Detached mount of the node.
    pub(super) mount: OwnedFd,
}

/// Makes nodes that belong to `owner`, or clones the host's if this process may make none.
pub(super) fn collect(owner: u32) -> io::Result<MachineDevices> {
    match devices::make(owner) {
        // In a user namespace, and on a host whose root lacks CAP_MKNOD.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            DEVICES.into_iter().map(clone_node).collect::<io::Result<_>>().map(MachineDevices::Hosts)
        }
        made => made.map(MachineDevices::Own),
    }
}

/// Clones a node and checks that it is the device it claims to be.
fn clone_node((name, major, minor): (&'static str, u32, u32)) -> io::Result<HostNode> {
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
    Ok(HostNode { name, mount })
}
