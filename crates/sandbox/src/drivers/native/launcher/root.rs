//! Building the tree a sandbox sees, from detached mounts, inside its own mount namespace.
//!
//! Every mount point is resolved with openat2 beneath the new root and without following any link, so a hostile image can
//! only make the start fail. The image itself is never written.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{
    MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_change,
    move_mount, open_tree, unmount,
};

use sandyard_protocol::limits;

use super::devices::Device;
use crate::host::layout::{DiskMount, MemoryMount, TERMINAL_GROUP};
use crate::host::storage::file_systems::{self, directory};
use crate::host::sys::mounts;

/// Flags of every mount of a sandbox: no set-user-id programs, no device nodes.
const NEVER: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);
/// Path where the whole disk is mounted for a moment, before any other process runs inside.
const DISK_STAGE: &str = "/run/.disk";

/// Keeps every later mount from spreading to the host, and the host's from spreading here.
pub(super) fn isolate_mounts() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Makes `tree` the root directory and unmounts the old root.
pub(super) fn enter(tree: BorrowedFd<'_>) -> io::Result<()> {
    let here = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    attach(tree, here.as_fd())?;
    rustix::process::fchdir(tree)?;
    // `pivot_root(".", ".")` stacks the old root on the new one, so no directory of the image is needed for
    // it.
    rustix::process::pivot_root(".", ".")?;
    // Without this the job could leave its root through the old one.
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// A new proc of this process's pid namespace. Must be made while the host's is still visible, or the kernel refuses.
pub(super) fn new_proc() -> io::Result<OwnedFd> {
    file_systems::create("proc", &[], NEVER | MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

/// Mounts `mount` on the directory `path` of `tree`.
pub(super) fn attach_at(tree: BorrowedFd<'_>, mount: BorrowedFd<'_>, path: &str) -> io::Result<()> {
    attach(mount, directory(tree, path)?.as_fd())
}

/// Mounts a minimal /dev: the given nodes, a private devpts and the usual links.
pub(super) fn fill_dev(tree: BorrowedFd<'_>, devices: &[Device]) -> io::Result<()> {
    // Room for the names below and nothing else.
    let options = [("size", "64k".to_owned()), ("nr_inodes", "64".to_owned()), ("mode", "755".to_owned())];
    let flags = NEVER | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let dev = file_systems::create("tmpfs", &options, flags)?;
    attach_at(tree, dev.as_fd(), "/dev")?;
    for device in devices {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(rustix::fs::openat(&dev, device.name, flags, Mode::from_raw_mode(0o666))?);
        let place = rustix::fs::openat(&dev, device.name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        attach(device.mount.as_fd(), place.as_fd())?;
    }
    for name in ["pts", "shm"] {
        rustix::fs::mkdirat(&dev, name, Mode::from_raw_mode(0o755))?;
    }
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, to) in links {
        rustix::fs::symlinkat(to, &dev, name)?;
    }
    let options = [
        ("newinstance", String::new()),
        ("ptmxmode", "0666".into()),
        ("mode", "0620".into()),
        ("gid", TERMINAL_GROUP.to_string()),
        ("max", limits::TERMINALS.to_string()),
    ];
    let terminals = file_systems::create(
        "devpts",
        &options,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )?;
    attach_at(tree, terminals.as_fd(), "/dev/pts")?;
    // Last: read-only from here on, so the job can't put a file in the place of a device.
    mounts::restrict(dev.as_fd(), flags | MountAttrFlags::MOUNT_ATTR_RDONLY, None)
}

/// Mounts a sized file system in memory.
pub(super) fn mount_memory(tree: BorrowedFd<'_>, mount: &MemoryMount) -> io::Result<()> {
    let options = [
        ("size", mount.size_bytes.to_string()),
        ("nr_inodes", mount.inodes.to_string()),
        ("mode", format!("{:o}", mount.mode)),
        ("uid", mount.owner.to_string()),
        ("gid", mount.owner.to_string()),
    ];
    make_directory(tree, &mount.target)?;
    attach_at(tree, file_systems::create("tmpfs", &options, NEVER)?.as_fd(), &mount.target)
}

/// Puts directories of the disk where the sandbox expects them. The rest of the disk is mounted nowhere.
pub(super) fn place_disk(tree: BorrowedFd<'_>, disk: BorrowedFd<'_>, places: &[DiskMount]) -> io::Result<()> {
    match place_parts(tree, disk, places) {
        // Kernels before 6.15 clone parts of attached mounts only.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => place_staged(tree, disk, places),
        placed => placed,
    }
}

/// Attaches the whole disk for the time it takes to clone its parts.
fn place_staged(tree: BorrowedFd<'_>, disk: BorrowedFd<'_>, places: &[DiskMount]) -> io::Result<()> {
    make_directory(tree, DISK_STAGE)?;
    attach_at(tree, disk, DISK_STAGE)?;
    place_parts(tree, disk, places)?;
    // Left mounted, the whole disk would be visible to the job.
    unmount(DISK_STAGE, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?;
    Ok(rustix::fs::rmdir(DISK_STAGE)?)
}

/// Clones all parts before it puts any in place, so that a failure leaves nothing behind.
fn place_parts(tree: BorrowedFd<'_>, disk: BorrowedFd<'_>, places: &[DiskMount]) -> io::Result<()> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let clone = |place: &DiskMount| Ok(open_tree(directory(disk, &place.source)?, "", flags)?);
    let parts = places.iter().map(clone).collect::<io::Result<Vec<OwnedFd>>>()?;
    places.iter().zip(&parts).try_for_each(|(place, part)| attach_at(tree, part.as_fd(), &place.target))
}

/// Puts the link directory in place.
pub(super) fn place_link(tree: BorrowedFd<'_>, link: BorrowedFd<'_>, target: &str) -> io::Result<()> {
    make_directory(tree, target)?;
    attach_at(tree, link, target)
}

fn attach(mount: BorrowedFd<'_>, onto: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", onto, "", flags)?)
}

/// Makes a directory and its parents where they are missing. On the read-only image that fails.
fn make_directory(tree: BorrowedFd<'_>, path: &str) -> io::Result<()> {
    match directory(tree, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found.map(drop),
    }
    let (parent, name) = path.rsplit_once('/').ok_or(io::ErrorKind::InvalidInput)?;
    make_directory(tree, if parent.is_empty() { "/" } else { parent })?;
    let parent = directory(tree, if parent.is_empty() { "/" } else { parent })?;
    Ok(rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?)
}
