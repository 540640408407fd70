//! The tree that the machine's processes see, built below the initrd's root and then made the root.
//!
//! The image is mounted read-only; written files are on the workspace's disk or in sized memory. Devices are single
//! mounts on a /dev of their own, as in every sandbox.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount, mount_bind, mount_move, mount_remount};
use sandyard_protocol::limits::TERMINALS;
use sandyard_protocol::{DEVICES, DiskMount, LinkPort, MACHINE_PROGRAMS, MachineConfig, MemoryMount};

use super::{document, ports};
use crate::boot::{BootFailure, BootStep as _};

const STAGE: &str = "tree";
/// Mount point of the image until it becomes the root.
const ROOT: &str = "/new";
/// Mount point of the workspace's whole disk. It can't be reached once the root has changed.
const DISK: &str = "/disk";
/// Directory of the guest's own programs.
pub(super) const PROGRAMS: &str = "/run/guest";
/// Init's own directory: in memory, mode 0700, owned by root.
const INIT: &str = "/run/init";
const NEVER: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Settings of a kernel that runs untrusted code: they limit the information about the kernel, the effects of links, and the time
/// for which a written file is in memory alone (the machine may be killed).
const SETTINGS: &[(&str, &str)] = &[
    ("kernel/dmesg_restrict", "1"),
    ("kernel/kptr_restrict", "2"),
    ("kernel/unprivileged_bpf_disabled", "1"),
    ("kernel/perf_event_paranoid", "3"),
    ("kernel/sysrq", "0"),
    ("fs/protected_hardlinks", "1"),
    ("fs/protected_symlinks", "1"),
    ("fs/protected_fifos", "1"),
    ("fs/protected_regular", "2"),
    ("fs/suid_dumpable", "0"),
    ("vm/dirty_writeback_centisecs", "100"),
    ("vm/dirty_expire_centisecs", "200"),
];

/// A path of the tree to be.
pub(super) fn inside(path: &str) -> PathBuf {
    Path::new(ROOT).join(path.trim_start_matches('/'))
}

/// Mounts the kernel's file systems that this process itself needs.
pub(super) fn mount_kernel_views() -> Result<(), BootFailure> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(target).step(STAGE, target)?;
        mount(kind, target, kind, MountFlags::NOSUID, None).step(STAGE, target)?;
    }
    Ok(())
}

/// Applies the settings that this kernel knows.
pub(super) fn harden() {
    for (name, value) in SETTINGS {
        // Some are older or newer than a user's own kernel; none of them is a wall.
        let _ = fs::write(Path::new("/proc/sys").join(name), value);
    }
}

/// Mounts everything below the new root.
pub(super) fn build(config: &MachineConfig) -> Result<(), BootFailure> {
    mount_disk(&config.root, ROOT, MountFlags::RDONLY | NEVER, c"")?;
    for place in &config.memory_places {
        if place.target.starts_with("/dev/") {
            continue;
        }
        mount_memory(place)?;
    }
    let init = MemoryMount { target: INIT.into(), size_bytes: 64 * 1024, inodes: 64, mode: 0o700, owner: 0 };
    mount_memory(&init)?;
    fill_dev(config)?;
    mount_disk(&config.disk, DISK, NEVER, c"")?;
    for place in &config.disk_places {
        place_directory(place)?;
    }
    let programs = inside(PROGRAMS);
    fs::create_dir_all(&programs).step(STAGE, PROGRAMS)?;
    mount_bind(MACHINE_PROGRAMS, &programs).step(STAGE, PROGRAMS)?;
    remount(&programs, MountFlags::RDONLY | NEVER).step(STAGE, PROGRAMS)?;
    match &config.link_port {
        Some(port) => place_link(port, config.boot.keeper_id),
        None => Ok(()),
    }
}

/// Makes the new tree the root. The initrd stays below it, out of everybody's reach.
pub(super) fn enter() -> Result<(), BootFailure> {
    // The working directory enters the new tree before the move, because no path leads there afterwards. The last chdir leaves no
    // way back to the old root.
    rustix::process::chdir(ROOT).step(STAGE, ROOT)?;
    mount_move(".", "/").step(STAGE, "move the root")?;
    rustix::process::chroot(".").step(STAGE, "change the root")?;
    rustix::process::chdir("/").step(STAGE, "/")
}

/// A proc of the calling process's pid namespace.
pub(super) fn mount_proc() -> io::Result<()> {
    Ok(mount("proc", "/proc", "proc", NEVER | MountFlags::NOEXEC, None)?)
}

fn mount_disk(
    name: &str,
    target: &str,
    flags: MountFlags,
    options: &std::ffi::CStr,
) -> Result<(), BootFailure> {
    let device = Path::new("/dev").join(name);
    document::wait_for(&device).step(STAGE, device.display())?;
    fs::create_dir_all(target).step(STAGE, target)?;
    mount(&device, target, "ext4", flags, Some(options)).step(STAGE, format_args!("mount {name}"))
}

fn mount_memory(place: &MemoryMount) -> Result<(), BootFailure> {
    let target = inside(&place.target);
    let MemoryMount { size_bytes, inodes, mode, owner, .. } = place;
    let options = format!("size={size_bytes},nr_inodes={inodes},mode={mode:o},uid={owner},gid={owner}");
    fs::create_dir_all(&target).step(STAGE, &place.target)?;
    let options = std::ffi::CString::new(options).map_err(io::Error::other).step(STAGE, &place.target)?;
    mount("tmpfs", &target, "tmpfs", NEVER, Some(options.as_c_str())).step(STAGE, &place.target)
}

fn place_directory(place: &DiskMount) -> Result<(), BootFailure> {
    let source = Path::new(DISK).join(&place.source);
    mount_bind(&source, inside(&place.target)).step(STAGE, &place.target)
}

/// A minimal /dev, with memory that the job shares, and terminals of its own.
fn fill_dev(config: &MachineConfig) -> Result<(), BootFailure> {
    // Room for the names below and nothing else.
    let dev = MemoryMount { target: "/dev".into(), size_bytes: 64 * 1024, inodes: 64, mode: 0o755, owner: 0 };
    mount_memory(&dev)?;
    for (name, _, _) in DEVICES {
        let place = inside("/dev").join(name);
        place_device(&Path::new("/dev").join(name), &place).step(STAGE, place.display())?;
    }
    for place in config.memory_places.iter().filter(|place| place.target.starts_with("/dev/")) {
        mount_memory(place)?;
    }
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, to) in links {
        symlink(to, inside("/dev").join(name)).step(STAGE, format_args!("/dev/{name}"))?;
    }
    let terminals = inside("/dev/pts");
    fs::create_dir(&terminals).step(STAGE, "/dev/pts")?;
    let options =
        format!("newinstance,ptmxmode=0666,mode=0620,gid={},max={TERMINALS}", config.terminal_group);
    let options = std::ffi::CString::new(options).map_err(io::Error::other).step(STAGE, "/dev/pts")?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", &terminals, "devpts", flags, Some(options.as_c_str())).step(STAGE, "/dev/pts")?;
    remount(&inside("/dev"), MountFlags::RDONLY | NEVER | MountFlags::NOEXEC).step(STAGE, "/dev")
}

/// Mounts a device in a directory where device files do not work.
fn place_device(device: &Path, place: &Path) -> io::Result<()> {
    fs::set_permissions(device, fs::Permissions::from_mode(0o666))?;
    File::create(place)?;
    mount_bind(device, place)?;
    remount(place, MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC)
}

/// The serial line that is keeper's link, for keeper alone.
fn place_link(port: &LinkPort, keeper: u32) -> Result<(), BootFailure> {
    let device = ports::device(&port.name).step(STAGE, &port.name)?;
    let directory =
        MemoryMount { target: port.directory.clone(), size_bytes: 4096, inodes: 4, mode: 0o711, owner: 0 };
    mount_memory(&directory)?;
    let place = inside(&port.directory).join(&port.file);
    place_device(&device, &place).step(STAGE, place.display())?;
    // After `place_device`, which opens a device to everybody: only keeper may use the link. No process of the job exists yet.
    chown(&device, Some(keeper), Some(keeper)).step(STAGE, device.display())?;
    fs::set_permissions(&device, fs::Permissions::from_mode(0o600)).step(STAGE, device.display())
}

fn remount(path: &Path, flags: MountFlags) -> io::Result<()> {
    Ok(mount_remount(path, MountFlags::BIND | flags, "")?)
}
