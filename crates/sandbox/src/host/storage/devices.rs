//! A /dev of a sandbox's own, with device nodes that nobody else has.
//!
//! Nodes of the host would carry watches and locks between all sandboxes and the host. Only a process with
//! CAP_MKNOD on the host can make nodes; without it, drivers mount the host's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid, makedev};
use rustix::mount::MountAttrFlags;
use sandyard_protocol::DEVICES;

use super::file_systems;
use crate::host::sys::mounts;

/// Links beside the nodes, as udev makes them.
const LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];
/// Directories on which other file systems are mounted, with their modes. runc gives the file system the mode of
/// the directory.
const PLACES: [(&str, u32); 2] = [("pts", 0o755), ("shm", 0o1777)];
/// Flags of every /dev: no programs, and nobody adds or replaces a node.
const FLAGS: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Makes a read-only /dev with nodes, links and empty directories, all of which belong to `owner`.
pub(crate) fn make(owner: u32) -> io::Result<OwnedFd> {
    let dev = blank(MountAttrFlags::empty())?;
    furnish(dev.as_fd())?;
    for (name, major, minor) in DEVICES {
        let open = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(&dev, name, FileType::CharacterDevice, open, makedev(major, minor))?;
        // The launcher's umask took bits away.
        rustix::fs::chmodat(&dev, name, open, AtFlags::empty())?;
    }
    let made = LINKS.map(|(name, _)| name).into_iter().chain(PLACES.map(|(name, _)| name));
    for name in made.chain(DEVICES.map(|(name, ..)| name)).chain(["."]) {
        let (user, group) = (Uid::from_raw(owner), Gid::from_raw(owner));
        rustix::fs::chownat(&dev, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    close(dev.as_fd(), MountAttrFlags::empty())?;
    Ok(dev)
}

/// True if this process can make device nodes.
pub(crate) fn can_be_made() -> bool {
    make(0).is_ok()
}

/// Makes an empty file system for a /dev, with room for its names and nothing else.
pub(crate) fn blank(more: MountAttrFlags) -> io::Result<OwnedFd> {
    let options = [("size", "64k".to_owned()), ("nr_inodes", "64".to_owned()), ("mode", "755".to_owned())];
    file_systems::create("tmpfs", &options, FLAGS | more)
}

/// Makes the directories and links of a /dev.
pub(crate) fn furnish(dev: BorrowedFd<'_>) -> io::Result<()> {
    for (name, mode) in PLACES {
        rustix::fs::mkdirat(dev, name, Mode::from_raw_mode(0o755))?;
        rustix::fs::chmodat(dev, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
    }
    LINKS.iter().try_for_each(|(name, to)| Ok(rustix::fs::symlinkat(*to, dev, *name)?))
}

/// Makes a /dev read-only, so that the job can't put a file in the place of a device.
pub(crate) fn close(dev: BorrowedFd<'_>, more: MountAttrFlags) -> io::Result<()> {
    mounts::restrict(dev, FLAGS | more | MountAttrFlags::MOUNT_ATTR_RDONLY, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_devices_that_everybody_may_use_and_nobody_may_replace() {
        if !can_be_made() {
            return;
        }
        let dev = make(70_000).unwrap();
        for (name, major, minor) in DEVICES {
            let found = rustix::fs::statat(&dev, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            assert_eq!(
                (found.st_mode & 0o777, found.st_uid, found.st_rdev),
                (0o666, 70_000, makedev(major, minor))
            );
        }
        let added = rustix::fs::mkdirat(&dev, "x", Mode::from_raw_mode(0o755));
        assert_eq!(added, Err(rustix::io::Errno::ROFS));
        let other = make(70_000).unwrap();
        let identity = |dev: &OwnedFd| rustix::fs::fstat(dev).unwrap().st_dev;
        assert_ne!(identity(&dev), identity(&other));
    }
}
