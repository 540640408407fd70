//! A minimal /dev for a machine whose container engine made a larger one, and mounts that allow devices.
//!
//! The nodes are clones of those the engine made, verified before use; each is a mount of its own, and nothing else anywhere may be
//! a device. Runs with privilege, before any code of the job exists.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_remount, move_mount, open_tree};

use sandyard_protocol::limits::TERMINALS;

use crate::sys;

const DEV: &str = "/dev";
/// Name, and the major and minor number that Linux assigns to it.
const NODES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
const LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];
/// Room for these names and nothing else.
const SIZE: &CStr = c"size=64k,nr_inodes=64,mode=755";
/// Group 5 is `tty` in Debian and in every distribution that follows it.
const TERMINAL_OPTIONS: &str = "newinstance,ptmxmode=0666,mode=0620,gid=5";

/// Mounts the new /dev over the old one. /dev/shm, which belongs to the job and is sized by the driver, moves along.
pub(super) fn replace() -> io::Result<()> {
    let dev = Path::new(DEV);
    let nodes: Vec<_> = NODES.iter().map(clone_node).collect::<io::Result<_>>()?;
    let shared = clone(&dev.join("shm"))?;
    // The clones above are not attached yet, so they keep their right to be devices.
    sys::forbid_devices("/".as_ref())?;
    let plain = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", dev, "tmpfs", plain | MountFlags::NODEV, Some(SIZE))?;
    for ((name, ..), node) in NODES.iter().zip(&nodes) {
        let place = dev.join(name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        // A node is mounted over a file, so there must be one. EXCL: nothing else has made this name.
        drop(rustix::fs::open(&place, flags, Mode::from_raw_mode(0o666))?);
        put(node, &place)?;
    }
    for name in ["pts", "shm"] {
        rustix::fs::mkdir(dev.join(name), Mode::from_raw_mode(0o755))?;
    }
    for (name, to) in LINKS {
        rustix::fs::symlink(to, dev.join(name))?;
    }
    let terminals = CString::new(format!("{TERMINAL_OPTIONS},max={TERMINALS}"))?;
    mount("devpts", dev.join("pts"), "devpts", plain, Some(terminals.as_c_str()))?;
    put(&shared, &dev.join("shm"))?;
    // Read-only at the end: the job may use the nodes, and add or remove none.
    Ok(mount_remount(dev, MountFlags::BIND | MountFlags::RDONLY | MountFlags::NODEV | plain, "")?)
}

/// Clones a node and checks that it is the device it claims to be.
fn clone_node(&(name, major, minor): &(&str, u32, u32)) -> io::Result<OwnedFd> {
    let node = clone(&Path::new(DEV).join(name))?;
    let stat = rustix::fs::fstat(&node)?;
    let genuine = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && rustix::fs::major(stat.st_rdev) == major
        && rustix::fs::minor(stat.st_rdev) == minor;
    if genuine {
        Ok(node)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("/dev/{name} is not device {major}:{minor}")))
    }
}

/// Returns a detached mount of a path.
fn clone(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    Ok(open_tree(CWD, path, flags)?)
}

fn put(mount: &OwnedFd, place: &Path) -> io::Result<()> {
    Ok(move_mount(mount.as_fd(), "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}
