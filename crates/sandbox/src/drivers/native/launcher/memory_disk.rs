//! A workspace in memory: a sized file system, mounted on the workspace's folder in the launcher's mount
//! namespace.
//!
//! Mounted there it outlives the sandbox. The kernel unmounts it when the folder is removed, in whichever
//! mount namespace that happens. The folder below the mount keeps a marker, so a lost workspace is not taken
//! for a new one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, StatxAttributes, StatxFlags, Uid};
use rustix::mount::{MountAttrFlags, MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use super::messages::{MEMORY_SOURCE, MemoryDisk};
use crate::host::storage::file_systems;

/// Type of tmpfs in statfs(2), from the kernel's `linux/magic.h`.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;
/// Name of the file in the folder, below the mount, that tells a lost workspace from a new one.
pub(in super::super) const MARKER: &str = "in-memory";

/// Opens the workspace as a detached mount, and makes it if it does not exist.
pub(super) fn open(disk: &MemoryDisk) -> io::Result<OwnedFd> {
    if !disk.exists {
        make(disk, &open_folder(disk)?)?;
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, &disk.folder, flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
    // The folder may have changed since the driver looked. A sandbox never gets a place without a cap on its
    // size.
    if rustix::fs::fstatfs(&tree)?.f_type == TMPFS && is_whole(&open_folder(disk)?)? {
        return Ok(tree);
    }
    Err(io::ErrorKind::NotFound.into())
}

fn open_folder(disk: &MemoryDisk) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(&disk.folder, flags, Mode::empty())?)
}

/// True if the directory is the root of a mount.
fn is_whole(folder: &OwnedFd) -> io::Result<bool> {
    let found = rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

fn make(disk: &MemoryDisk, folder: &OwnedFd) -> io::Result<()> {
    let options = [
        ("source", format!("{MEMORY_SOURCE}{}", disk.id_base)),
        ("size", disk.size_bytes.to_string()),
        ("nr_inodes", disk.inodes.to_string()),
        ("mode", "755".to_owned()),
    ];
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let memory = file_systems::create("tmpfs", &options, flags)?;
    // The places are made before the mount is visible, so that a crash can't leave a workspace without them.
    for place in &disk.places {
        rustix::fs::mkdirat(&memory, &place.name, Mode::from_raw_mode(0o700))?;
        let (user, group) = (Uid::from_raw(place.owner), Gid::from_raw(place.owner));
        rustix::fs::chownat(&memory, &place.name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        rustix::fs::chmodat(&memory, &place.name, Mode::from_raw_mode(place.mode), AtFlags::empty())?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(memory.as_fd(), "", folder, "", flags)?;
    // The descriptor of the folder was opened before the mount, so the marker lands below it.
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    drop(rustix::fs::openat(folder, MARKER, flags, Mode::from_raw_mode(0o600))?);
    Ok(())
}
