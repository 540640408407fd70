//! Building the tree a sandbox sees, from detached mounts, inside its own mount namespace.
//!
//! Every mount point is resolved with openat2 beneath the new root and without following any link, so a hostile image can
//! only make the start fail. The image itself is never written.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{
    MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_change,
    move_mount, open_tree, unmount,
};

use sandyard_protocol::limits;

use super::devices::{HostNode, MachineDevices};
use crate::host::layout::{DiskMount, MemoryMount, TERMINAL_GROUP};
use crate::host::storage::file_systems::{self, directory};
use crate::host::storage::{devices, private_view};

/// Flags of every mount of a sandbox: no set-user-id programs, no device nodes.
const NEVER: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);
/// Path where the whole disk is mounted for a moment, before any other process runs inside.
const DISK_STAGE: &str = "/run/.disk";

/// Keeps every later mount from spreading to the host, and the host's from spreading here.
pub(super) fn isolate_mounts() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Trees of the host, as file systems of the sandbox's own.
pub(super) struct PrivateViews {
    pub(super) root: OwnedFd,
    pub(super) programs: OwnedFd,
}

/// Makes the sandbox's own views of image and programs. Before the pivot: the old root has the /proc by which
/// layers are named.
pub(super) fn private_views(image: BorrowedFd<'_>, programs: BorrowedFd<'_>) -> io::Result<PrivateViews> {
    let options = [("size", "4k".to_owned()), ("nr_inodes", "1".to_owned()), ("mode", "755".to_owned())];
    let blank = file_systems::create("tmpfs", &options, NEVER | MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    // The kernel takes layers only from this mount namespace, so they are attached until the views hold
    // them.
    attach(image, old_root()?.as_fd())?;
    attach_at(image, blank.as_fd(), "/dev")?;
    attach_at(image, programs, "/run")?;
    let views = PrivateViews {
        root: private_view::make(blank.as_fd(), image, NEVER)?,
        programs: private_view::make(blank.as_fd(), programs, NEVER)?,
    };
    // Takes the other two along. Left attached, it would cover the old root, and `enter` would unmount it in
    // the old root's place.
    unmount(format!("/proc/self/fd/{}", image.as_raw_fd()), UnmountFlags::DETACH)?;
    Ok(views)
}

/// Makes `tree` the root directory and unmounts the old root.
pub(super) fn enter(tree: BorrowedFd<'_>) -> io::Result<()> {
    attach(tree, old_root()?.as_fd())?;
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

/// Mounts a minimal /dev: nodes, a private devpts and the usual links.
pub(super) fn fill_dev(tree: BorrowedFd<'_>, devices: &MachineDevices) -> io::Result<()> {
    match devices {
        MachineDevices::Own(dev) => attach_at(tree, dev.as_fd(), "/dev")?,
        MachineDevices::Hosts(nodes) => place_hosts_nodes(tree, nodes)?,
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
    attach_at(tree, terminals.as_fd(), "/dev/pts")
}

/// Mounts a /dev on which the host's nodes are mounted one by one.
fn place_hosts_nodes(tree: BorrowedFd<'_>, nodes: &[HostNode]) -> io::Result<()> {
    let dev = devices::blank(MountAttrFlags::MOUNT_ATTR_NODEV)?;
    attach_at(tree, dev.as_fd(), "/dev")?;
    devices::furnish(dev.as_fd())?;
    for node in nodes {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(rustix::fs::openat(&dev, node.name, flags, Mode::from_raw_mode(0o666))?);
        let place = rustix::fs::openat(&dev, node.name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        attach(node.mount.as_fd(), place.as_fd())?;
    }
    devices::close(dev.as_fd(), MountAttrFlags::MOUNT_ATTR_NODEV)
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
    place(tree, file_systems::create("tmpfs", &options, NEVER)?.as_fd(), &mount.target)
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

/// Mounts `mount` on a directory that is made for it.
pub(super) fn place(tree: BorrowedFd<'_>, mount: BorrowedFd<'_>, target: &str) -> io::Result<()> {
    make_directory(tree, target)?;
    attach_at(tree, mount, target)
}

fn old_root() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
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
