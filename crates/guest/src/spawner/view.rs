//! The job's view of the machine: the spawner's own mounts. Runs with privilege, before any code of the job exists.
//!
//! Hides keeper's directories, mounts a /proc of the inner pid namespace over the outer one, and covers all of it that programs do
//! not need: it reveals or changes the host, or tells what neighbours do. Paths that this kernel doesn't have need no cover.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Instant, SystemTime};

use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, mount_remount, unmount,
};

use sandyard_protocol::{BootConfig, MachineSize};

use super::covers::Covers;
use super::gauge::MemoryGauge;
use super::{devices, size};
use crate::boot::{BootFailure, BootStep as _};
use crate::sys;

const STAGE: &str = "view";
/// Mounts stacked on one hidden path; drivers make one.
const STACKED_MOUNTS: usize = 8;

/// Entries of /proc that programs need and that tell about the machine, the sandbox or its processes. All others are covered,
/// those of later kernels among them. sysinfo(2), without which language runtimes do not start, counts for the whole host.
const NEEDED: &[&str] = &[
    "cpuinfo",
    "filesystems",
    "meminfo",
    "mounts",
    "net",
    "self",
    "sys",
    "sysvipc",
    "thread-self",
    "tty",
    "uptime",
    "version",
];
/// Entries that count for everybody on the kernel. Where it is the machine's own, they count for this job and stay.
const COUNTERS: &[&str] =
    &["cgroups", "diskstats", "loadavg", "locks", "partitions", "stat", "swaps", "vmstat"];
/// Counters among the kernel's settings: open files, inodes, names, and terminals of everybody.
const COUNTERS_AMONG_SETTINGS: &[&str] = &[
    "/proc/sys/fs/aio-nr",
    "/proc/sys/fs/dentry-state",
    "/proc/sys/fs/file-nr",
    "/proc/sys/fs/inode-nr",
    "/proc/sys/fs/inode-state",
    "/proc/sys/kernel/pty/nr",
];
/// Directories of hardware and firmware outside of /proc.
const COVERED_DIRECTORIES: &[&str] = &[
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
    "/sys/devices/virtual/powercap",
];
/// Directories that programs read and no process may write.
const READ_ONLY: &[&str] = &["/proc/sys", "/proc/tty", "/sys"];

/// The memory of the machine, in /proc.
const MEMORY: &str = "meminfo";
/// A load average of nobody.
const NO_LOAD: &str = "0.00 0.00 0.00 1/1 1\n";
/// The lines of `vmstat` that tools look for.
const NO_MEMORY_EVENTS: &str =
    "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\noom_kill 0\n";

/// Turns this process's mount namespace into the one that the job sees. Returns the writer of the texts that change.
pub(super) fn prepare(config: &BootConfig) -> Result<Option<MemoryGauge>, BootFailure> {
    // First, or the mounts below would spread to keeper's namespace where its own are shared.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step(STAGE, "make mounts private")?;
    if config.engine.is_some() {
        devices::replace().step(STAGE, "make a /dev")?;
    }
    // The kernel allows a new proc in a user namespace only while a fully visible one is there.
    mount("proc", "/proc", "proc", no_special(), None).step(STAGE, "mount /proc")?;
    let shares_kernel = !config.link.leaves_virtual_machine();
    let texts = ViewTexts::read(config.size.as_ref(), shares_kernel).step(STAGE, "read /proc")?;
    let covers = Covers::make(&texts.all()).step(STAGE, "make covers")?;
    for path in &config.hidden {
        hide(path, &covers)?;
    }
    cover_proc(&covers, &texts.proc, shares_kernel).step(STAGE, "cover /proc")?;
    for path in COVERED_DIRECTORIES {
        covers.hide(path.as_ref()).step(STAGE, format_args!("cover {path}"))?;
    }
    for path in READ_ONLY {
        make_read_only(path).step(STAGE, format_args!("make {path} read-only"))?;
    }
    // After the settings were mounted once more: a mount does not take covers along.
    for path in COUNTERS_AMONG_SETTINGS.iter().filter(|_| shares_kernel) {
        covers.hide(path.as_ref()).step(STAGE, format_args!("cover {path}"))?;
    }
    if !texts.sys.is_empty() {
        covers.replace("/sys".as_ref(), size::SYS).step(STAGE, "cover /sys")?;
    }
    let gauge = config.size.filter(|_| shares_kernel).map(|size| gauge(&covers, size)).transpose();
    let gauge = gauge.step(STAGE, "open the texts that change")?;
    // Runtimes bind device nodes without it.
    sys::forbid_set_user_id("/".as_ref()).step(STAGE, "forbid set-user-id files on every mount")?;
    Ok(gauge)
}

/// The texts that stand for files of the kernel.
struct ViewTexts {
    /// By their names in /proc.
    proc: Vec<(String, String)>,
    /// By their paths below the covers.
    sys: Vec<(String, String)>,
}

impl ViewTexts {
    /// Makes them from those of the kernel. A machine whose kernel is its own shows most of that one's.
    fn read(size: Option<&MachineSize>, shares_kernel: bool) -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let processors = stat.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1);
        let sys = size.map(|size| size::sys(processors, size)).unwrap_or_default();
        if !shares_kernel {
            return Ok(Self { proc: Vec::new(), sys });
        }
        let mut proc = vec![
            ("stat", size::quiet_stat(&stat, size, begin_time())),
            ("loadavg", NO_LOAD.to_owned()),
            ("vmstat", NO_MEMORY_EVENTS.to_owned()),
        ];
        if let Some(size) = size {
            proc.push(("cpuinfo", size::cpuinfo(&fs::read_to_string("/proc/cpuinfo")?, size)));
            proc.push((MEMORY, size::meminfo(size, 0)));
        }
        let proc = proc.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        Ok(Self { proc, sys })
    }

    fn all(&self) -> Vec<(String, String)> {
        self.proc.iter().chain(&self.sys).cloned().collect()
    }
}

/// Has the machine's time since boot begin now, for the processes of the job. Returns the time of day, or nothing where the kernel
/// has no namespaces for clocks: then `uptime` is the host's.
fn begin_time() -> Option<u64> {
    sys::own_boot_time().ok()?;
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok().map(|now| now.as_secs())
}

fn gauge(covers: &Covers, size: MachineSize) -> io::Result<MemoryGauge> {
    let (meminfo, used) = (covers.open(MEMORY)?, covers.open(size::USED_MEMORY)?);
    Ok(MemoryGauge { size, meminfo, used, due: Instant::now(), written: 0 })
}

/// Covers the entries of /proc that are not needed, and replaces those that programs expect to find.
fn cover_proc(covers: &Covers, replaced: &[(String, String)], shares_kernel: bool) -> io::Result<()> {
    let is_process = |name: &str| name.starts_with(|letter: char| letter.is_ascii_digit());
    let stays = |name: &str| NEEDED.contains(&name) || (!shares_kernel && COUNTERS.contains(&name));
    let names: Vec<_> =
        fs::read_dir("/proc")?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    for name in names.iter().filter_map(|name| name.to_str()).filter(|name| !is_process(name)) {
        let path = Path::new("/proc").join(name);
        if replaced.iter().any(|(text, _)| text == name) {
            covers.replace(&path, name)?;
        } else if !stays(name) {
            covers.hide(&path)?;
        }
    }
    Ok(())
}

/// Unmounts a directory of keeper's, or covers it where the driver's mount can't be undone from here.
fn hide(path: &Path, covers: &Covers) -> Result<(), BootFailure> {
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
        covers.hide(path).step(STAGE, format_args!("cover {}", path.display()))?;
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

fn make_read_only(path: &str) -> io::Result<()> {
    if is_empty(path.as_ref())? {
        return Ok(());
    }
    // Flags of a bind mount apply only with a second call: the kernel ignores them in the first.
    mount_bind(path, path)?;
    Ok(mount_remount(path, MountFlags::BIND | MountFlags::RDONLY | no_special(), "")?)
}

fn no_special() -> MountFlags {
    MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC
}
