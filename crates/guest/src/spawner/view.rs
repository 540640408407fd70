//! The job's view of the machine: the spawner's own mounts. Runs with privilege, before any code of the job exists.
//!
//! Hides keeper's directories, mounts a /proc of the inner pid namespace over the outer one, and covers its files that reveal or
//! change the host. Paths that this kernel doesn't have need no cover.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind,
    mount_change, mount_remount, move_mount, open_tree, unmount,
};

use sandyard_protocol::BootConfig;

use super::devices;
use crate::boot::{BootFailure, BootStep as _};
use crate::sys;

const STAGE: &str = "view";
/// Mounts stacked on one hidden path; drivers make one.
const STACKED_MOUNTS: usize = 8;

/// Files that reveal or change the host's kernel: covered by the null device. `sched_debug` and `latency_stats`
/// show other people's processes, `kallsyms` and `modules` the kernel's layout, `keys` every user's keyrings.
const COVERED_FILES: &[&str] = &[
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kallsyms",
    "/proc/kmsg",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/kpagecgroup",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/sched_debug",
    "/proc/slabinfo",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/vmallocinfo",
    "/proc/config.gz",
    "/proc/interrupts",
    "/proc/pagetypeinfo",
];
/// Directories of hardware and firmware, and the host's load, which any process may have the kernel watch: covered by an empty directory.
const COVERED_DIRECTORIES: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/driver",
    "/proc/dynamic_debug",
    "/proc/pressure",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
    "/sys/devices/virtual/powercap",
];
/// Directories that programs read and no process may write.
const READ_ONLY: &[&str] = &["/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/tty", "/sys"];

/// Turns this process's mount namespace into the one that the job sees.
pub(super) fn prepare(config: &BootConfig) -> Result<(), BootFailure> {
    // First, or the mounts below would spread to keeper's namespace where its own are shared.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step(STAGE, "make mounts private")?;
    if config.engine.is_some() {
        devices::replace().step(STAGE, "make a /dev")?;
    }
    for path in &config.hidden {
        hide(path)?;
    }
    // The kernel allows a new proc in a user namespace only while a fully visible one is there.
    mount("proc", "/proc", "proc", no_special(), None).step(STAGE, "mount /proc")?;
    let null = null_device()?;
    for path in COVERED_FILES {
        cover_file(path, &null).step(STAGE, format_args!("cover {path}"))?;
    }
    for path in COVERED_DIRECTORIES {
        cover_directory(path.as_ref()).step(STAGE, format_args!("cover {path}"))?;
    }
    for path in READ_ONLY {
        make_read_only(path).step(STAGE, format_args!("make {path} read-only"))?;
    }
    // Runtimes bind device nodes without it.
    sys::forbid_set_user_id("/".as_ref()).step(STAGE, "forbid set-user-id files on every mount")
}

/// Unmounts a directory of keeper's, or covers it where the driver's mount can't be undone from here.
fn hide(path: &Path) -> Result<(), BootFailure> {
    // Each round takes one mount off the stack; EINVAL means that none is left, or that the rest is locked.
    for _ in 0..STACKED_MOUNTS {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::INVAL) => break,
            Err(error) => {
                return Err(BootFailure::new(
                    STAGE,
                    format_args!("unmount {}", path.display()),
                    error.into(),
                ));
            }
        }
    }
    if !is_empty(path).step(STAGE, format_args!("look into {}", path.display()))? {
        cover_directory(path).step(STAGE, format_args!("cover {}", path.display()))?;
    }
    Ok(())
}

fn is_empty(path: &Path) -> io::Result<bool> {
    match path.read_dir() {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        Err(error) => Err(error),
    }
}

/// The real null device, by descriptor: an image could have put a link in its place (CVE-2025-31133).
fn null_device() -> Result<File, BootFailure> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let null = File::from(rustix::fs::open("/dev/null", flags, Mode::empty()).step(STAGE, "open /dev/null")?);
    let metadata = null.metadata().step(STAGE, "look at /dev/null")?;
    // Checked on the descriptor that will be cloned, so nothing can be exchanged in between.
    if metadata.file_type().is_char_device() && metadata.rdev() == rustix::fs::makedev(1, 3) {
        Ok(null)
    } else {
        Err(BootFailure::plain(STAGE, "/dev/null is not the null device"))
    }
}

fn cover_file(path: &str, null: &File) -> io::Result<()> {
    if !exists(path) {
        return Ok(());
    }
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let copy = open_tree(null.as_fd(), "", flags)?;
    Ok(move_mount(copy.as_fd(), "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn cover_directory(path: &Path) -> io::Result<()> {
    if !exists(path) {
        return Ok(());
    }
    Ok(mount(
        "tmpfs",
        path,
        "tmpfs",
        no_special() | MountFlags::RDONLY,
        Some(c"size=4k,nr_inodes=1,mode=0555"),
    )?)
}

fn make_read_only(path: &str) -> io::Result<()> {
    if !exists(path) || is_empty(path.as_ref())? {
        return Ok(());
    }
    // Flags of a bind mount apply only with a second call: the kernel ignores them in the first.
    mount_bind(path, path)?;
    Ok(mount_remount(path, MountFlags::BIND | MountFlags::RDONLY | no_special(), "")?)
}

fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().symlink_metadata().is_ok()
}

fn no_special() -> MountFlags {
    MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC
}
