//! A /dev of just what a job needs, for a machine whose engine made a larger one, and mounts that allow devices and set-user-id programs.
//!
//! The nodes are clones of those the engine made, verified before use; each is a mount of its own, and nothing else in the
//! new /dev may be a device. Runs with privilege, before any code of the job exists.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_remount, move_mount, open_tree,
};

use crate::sys;

/// Name and the numbers that Linux assigns it.
const NODES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
const LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];
/// Group of terminals: `tty` in Debian and in every distribution that follows it.
const TERMINAL_GROUP: &str = "5";
const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);

/// Puts the new /dev over the old one. /dev/shm, which is the job's and sized by the driver, moves along.
pub(super) fn replace() -> io::Result<()> {
    let nodes: Vec<_> = NODES.iter().map(clone_node).collect::<io::Result<_>>()?;
    let shared = open_tree(CWD, "/dev/shm", CLONE | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
    // The clones above are not among them.
    sys::forbid_special_files()?;
    // Room for the names below and nothing else.
    let options = [("size", "64k"), ("nr_inodes", "64"), ("mode", "755")];
    let dev = create("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NODEV)?;
    move_mount(dev.as_fd(), "", CWD, "/dev", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    for ((name, ..), node) in NODES.iter().zip(&nodes) {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(rustix::fs::openat(&dev, *name, flags, Mode::from_raw_mode(0o666))?);
        place(node.as_fd(), &format!("/dev/{name}"))?;
    }
    for name in ["pts", "shm"] {
        rustix::fs::mkdirat(&dev, name, Mode::from_raw_mode(0o755))?;
    }
    for (name, to) in LINKS {
        rustix::fs::symlinkat(to, &dev, name)?;
    }
    let options = [("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620"), ("gid", TERMINAL_GROUP)];
    place(create("devpts", &options, MountAttrFlags::empty())?.as_fd(), "/dev/pts")?;
    place(shared.as_fd(), "/dev/shm")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    Ok(mount_remount("/dev", MountFlags::BIND | flags, "")?)
}

/// Clones a node and checks that it is the device it claims to be.
fn clone_node(&(name, major, minor): &(&str, u32, u32)) -> io::Result<OwnedFd> {
    let mount = open_tree(CWD, format!("/dev/{name}"), CLONE | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
    let stat = rustix::fs::fstat(&mount)?;
    let genuine = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && rustix::fs::major(stat.st_rdev) == major
        && rustix::fs::minor(stat.st_rdev) == minor;
    if genuine {
        Ok(mount)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("/dev/{name} is not device {major}:{minor}")))
    }
}

fn create(kind: &str, options: &[(&str, &str)], flags: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        if value.is_empty() {
            fsconfig_set_flag(&context, *key)?;
        } else {
            fsconfig_set_string(&context, *key, *value)?;
        }
    }
    fsconfig_create(&context)?;
    let always = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, always | flags)?)
}

fn place(mount: BorrowedFd<'_>, path: &str) -> io::Result<()> {
    Ok(move_mount(mount, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}
