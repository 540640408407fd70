//! The mounts that a runtime finds when it makes a container. They are in a mount namespace of their own: no
//! other process sees them, and they need no removal.
//!
//! The stage is a small file system in memory at a fixed place, because a runtime resolves its root with the
//! container's own ids, for which the yard's directories are closed. It holds views of image and programs that
//! are the sandbox's own, the disk, a /dev, and init's directory with the boot document.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

use super::runtime::RuntimeKind;
use super::sys::StagedMount;
use crate::host::layout::{BOOT_FILE, DISK_PLACES};
use crate::host::storage::{devices, file_systems, image_disk, private_view};
use crate::host::sys::{mounts, users};

/// Path of the stage: an empty directory on the host, covered only in the runtime's mount namespace.
const STAGE: &str = "/run/sandyard";
const ROOT: &str = "root";
const PROGRAMS: &str = "programs";
const DISK: &str = "disk";
const DEV: &str = "dev";
/// Layers of the views, shared with other sandboxes.
const IMAGE_LAYER: &str = "image-layer";
const PROGRAMS_LAYER: &str = "programs-layer";
/// The empty layer of the views.
const BLANK: &str = "blank";
const BOOT: &str = "boot";
/// Directories of the image on which the runtime mounts.
const MOUNT_POINTS: [&str; 3] = ["/proc", "/dev", "/run"];
/// Flags of every mount: no set-user-id files, no devices.
const PLAIN: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// Maker of a container's device nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeMaker {
    /// The driver, on the stage.
    Driver,
    /// The runtime, which in a user namespace mounts the host's.
    Runtime,
}

/// Contents of the stage.
pub(super) struct OciStageProps<'a> {
    pub(super) image_root: &'a Path,
    /// Directory on the host with the guest's programs.
    pub(super) programs: &'a Path,
    /// Maker of the device nodes.
    pub(super) nodes: NodeMaker,
    pub(super) disk: &'a Path,
    /// Contents of the boot document.
    pub(super) boot: &'a [u8],
    /// Number of empty files beside it, on which entrances of groups are mounted.
    pub(super) boot_files: usize,
    /// First of the container's ids on the host and their map, if it has ids of its own.
    pub(super) users: Option<(u32, &'a str)>,
}

/// Returns the path of the image on the stage.
pub(super) fn root() -> PathBuf {
    Path::new(STAGE).join(ROOT)
}

/// Returns the path of the guest's programs on the stage.
pub(super) fn programs() -> PathBuf {
    Path::new(STAGE).join(PROGRAMS)
}

/// Returns the path of the /dev on the stage.
pub(super) fn dev() -> PathBuf {
    Path::new(STAGE).join(DEV)
}

/// Returns the path of a directory of the disk on the stage.
pub(super) fn disk_place(name: &str) -> PathBuf {
    Path::new(STAGE).join(DISK).join(name)
}

/// Returns the path of init's directory on the stage.
pub(super) fn boot() -> PathBuf {
    Path::new(STAGE).join(BOOT)
}

/// Decides who makes the nodes. A virtual machine has devices of its own.
pub(super) fn node_maker(runtime: RuntimeKind) -> NodeMaker {
    match runtime.maps_users() && devices::can_be_made() {
        true => NodeMaker::Driver,
        false => NodeMaker::Runtime,
    }
}

/// Makes the directory of the stage.
pub(super) fn prepare_host() -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(STAGE)
}

/// Makes all detached mounts, in the order in which they are put in place. Blocks: mounts a disk.
pub(super) fn set(props: &OciStageProps<'_>) -> io::Result<Vec<StagedMount>> {
    check_mount_points(props.image_root)?;
    let namespace = props.users.map(|(owner, map)| users::user_namespace(map, owner)).transpose()?;
    let namespace = namespace.as_ref().map(AsFd::as_fd);
    let owner = props.users.map_or(0, |(base, _)| base);
    let mut mounts = vec![
        made(floor(props, owner)?, "")?,
        made(layer(props.image_root, namespace)?, IMAGE_LAYER)?,
        view(IMAGE_LAYER, ROOT)?,
        made(layer(props.programs, namespace)?, PROGRAMS_LAYER)?,
        view(PROGRAMS_LAYER, PROGRAMS)?,
        made(disk(props.disk, namespace)?, DISK)?,
    ];
    if props.nodes == NodeMaker::Driver {
        mounts.push(made(devices::make(owner)?, DEV)?);
    }
    Ok(mounts)
}

fn made(mount: OwnedFd, name: &str) -> io::Result<StagedMount> {
    Ok(StagedMount::Made { mount, target: on_stage(name)? })
}

/// The sandbox's own view of a layer.
fn view(layer: &str, name: &str) -> io::Result<StagedMount> {
    let fixed = private_view::VIEW_OPTIONS.map(|(key, value)| format!(",{key}={value}")).concat();
    let options = CString::new(format!("lowerdir={STAGE}/{BLANK}:{STAGE}/{layer}{fixed}"))?;
    Ok(StagedMount::View { options, target: on_stage(name)? })
}

fn on_stage(name: &str) -> io::Result<CString> {
    Ok(CString::new(format!("{STAGE}/{name}"))?)
}

/// Rejects an image whose mount points are links: its runtime would mount outside of it (K12,
/// CVE-2026-41579).
fn check_mount_points(image: &Path) -> io::Result<()> {
    let tree = rustix::fs::open(image, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for place in MOUNT_POINTS.into_iter().chain(DISK_PLACES.iter().map(|place| place.target)) {
        file_systems::directory(tree.as_fd(), place).map_err(|error| {
            io::Error::new(error.kind(), format!("{place} of the image is no plain directory: {error}"))
        })?;
    }
    Ok(())
}

/// Makes the file system in memory, with places for the other mounts and init's directory.
fn floor(props: &OciStageProps<'_>, owner: u32) -> io::Result<OwnedFd> {
    let options = [("size", "256k".to_owned()), ("nr_inodes", "64".to_owned()), ("mode", "755".to_owned())];
    let floor = file_systems::create("tmpfs", &options, PLAIN | MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
    for name in [ROOT, PROGRAMS, DISK, DEV, IMAGE_LAYER, PROGRAMS_LAYER, BLANK] {
        rustix::fs::mkdirat(&floor, name, Mode::from_raw_mode(0o755))?;
    }
    // The root directories of the views are this one.
    give(floor.as_fd(), BLANK, owner)?;
    rustix::fs::mkdirat(&floor, BOOT, Mode::from_raw_mode(0o700))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let boot = rustix::fs::openat(&floor, BOOT, flags, Mode::empty())?;
    write(boot.as_fd(), BOOT_FILE, props.boot, owner)?;
    for number in 0..props.boot_files {
        write(boot.as_fd(), &number.to_string(), b"", owner)?;
    }
    // Last: from here on the directory belongs to the container's root.
    give(floor.as_fd(), BOOT, owner)?;
    Ok(floor)
}

fn write(directory: BorrowedFd<'_>, name: &str, content: &[u8], owner: u32) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o400))?;
    fs::File::from(file).write_all(content)?;
    give(directory, name, owner)
}

fn give(directory: BorrowedFd<'_>, name: &str, owner: u32) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(owner), Gid::from_raw(owner));
    Ok(rustix::fs::chownat(directory, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Returns a tree as a read-only mount. Owners inside are the owners on disk.
fn layer(path: &Path, namespace: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let tree = open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    mounts::restrict(tree.as_fd(), PLAIN | MountAttrFlags::MOUNT_ATTR_RDONLY, namespace)?;
    Ok(tree)
}

fn disk(path: &Path, namespace: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let disk = image_disk::mount(path)?;
    mounts::restrict(disk.as_fd(), PLAIN, namespace)?;
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_with_a_link_for_a_mount_point_is_refused() {
        let image = tempfile::tempdir().unwrap();
        for place in ["proc", "dev", "run", "workspace", "home/agent", "tmp", "var/tmp"] {
            fs::create_dir_all(image.path().join(place)).unwrap();
        }
        check_mount_points(image.path()).unwrap();
        fs::remove_dir(image.path().join("dev")).unwrap();
        std::os::unix::fs::symlink("/dev", image.path().join("dev")).unwrap();
        let error = check_mount_points(image.path()).unwrap_err();
        assert!(error.to_string().starts_with("/dev of the image"), "{error}");
    }
}
