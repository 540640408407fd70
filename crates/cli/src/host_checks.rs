//! Checks of the host for drivers and images, each with a fix.

use std::fs;
use std::path::{Path, PathBuf};

use sandyard_sandbox::driver::ProcessBounds;
use serde::Serialize;

use crate::config::Settings;

/// Free disk space below which the server will soon reject jobs.
const ROOM_MIB: u64 = 2048;

/// Processes below which a dozen jobs with the default limit may fill the host.
const ENOUGH_PROCESSES: u64 = 12_288;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Subject of the check.
    pub(crate) name: &'static str,
    /// True if the check passed.
    pub(crate) ok: bool,
    /// The finding in words.
    pub(crate) detail: String,
    /// Remedy for a person.
    pub(crate) fix: Option<String>,
}

impl Check {
    fn new(name: &'static str, ok: bool, detail: impl Into<String>, fix: &str) -> Self {
        let fix = (!ok && !fix.is_empty()).then(|| fix.to_owned());
        Self { name, ok, detail: detail.into(), fix }
    }
}

/// Runs all checks of the host that concern every driver.
pub(crate) fn all(settings: &Settings) -> Vec<Check> {
    let mut checks =
        vec![kernel(), cgroups(), overlay(), landlock(), seccomp(), core_dumps(), processes(), kvm()];
    // An ordinary user's workspaces are in memory, and images are root's to build.
    if rustix::process::geteuid().is_root() {
        checks.extend([
            loop_devices(),
            program("mkfs.ext4", "e2fsprogs", "makes the disks of sandboxes"),
            program("mmdebstrap", "mmdebstrap", "builds images"),
            room("room for images", &settings.cache),
        ]);
    }
    checks.push(room("room for jobs", &settings.data));
    checks
}

fn kernel() -> Check {
    let name = rustix::system::uname();
    Check::new("kernel", true, name.release().to_string_lossy(), "")
}

fn cgroups() -> Check {
    let mounts = read("/proc/self/mounts");
    let has = |kind: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
    let (ok, detail) = match (has("cgroup2"), has("cgroup")) {
        (true, true) => (true, "v1 and v2 together"),
        (true, false) => (true, "v2"),
        (false, true) => (true, "v1"),
        (false, false) => (false, "not mounted"),
    };
    Check::new("control groups", ok, detail, "mount -t cgroup2 none /sys/fs/cgroup")
}

fn overlay() -> Check {
    let ok = read("/proc/filesystems").lines().any(|line| line.trim_end().ends_with("overlay"));
    Check::new("overlay", ok, if ok { "there" } else { "not in this kernel" }, "modprobe overlay")
}

fn landlock() -> Check {
    let modules = read("/sys/kernel/security/lsm");
    let on = modules.split(',').any(|name| name.trim() == "landlock");
    // Without securityfs the kernel may still have Landlock; the driver, which needs it, finds out.
    let (ok, detail) = match (on, modules.is_empty()) {
        (true, _) => (true, "on".to_owned()),
        (false, true) => (true, "told by the driver: /sys/kernel/security is not mounted".to_owned()),
        (false, false) => (false, format!("not among {}", modules.trim())),
    };
    Check::new("landlock", ok, detail, "add landlock to lsm= on the kernel's command line")
}

fn seccomp() -> Check {
    let ok = read("/proc/sys/kernel/seccomp/actions_avail").contains("errno");
    Check::new(
        "seccomp",
        ok,
        if ok { "filters" } else { "no filters" },
        "use a kernel with CONFIG_SECCOMP_FILTER",
    )
}

/// Judges who gets the core dumps of crashed programs.
pub(crate) fn core_dumps() -> Check {
    judge_core_pattern(read("/proc/sys/kernel/core_pattern").trim())
}

/// The kernel ends a crash in a sandbox without a core dump where that would go to a file or a program: the limit of core dumps is 1
/// byte and can't be changed inside. No limit holds for a socket (`@`, from Linux 6.16 on), whose listener is outside of every
/// wall and reads what the job chose.
fn judge_core_pattern(pattern: &str) -> Check {
    let (ok, detail) = match pattern.chars().next() {
        Some('@') => (
            false,
            format!("a crash in a sandbox reaches the host's socket {}", pattern.trim_start_matches('@')),
        ),
        Some('|') => (true, "to a program, which sandboxes do not reach".to_owned()),
        _ => (true, "to files; sandboxes make none".to_owned()),
    };
    Check::new(
        "core dumps",
        ok,
        detail,
        "sysctl -w kernel.core_pattern=core, or a pattern with `|` and a program",
    )
}

/// The bounds by which forks of jobs leave some to the host.
fn processes() -> Check {
    let ProcessBounds { host, together, one_job } = ProcessBounds::of_host();
    let detail = format!("{host} on this host; {together} for all jobs, {one_job} for one");
    Check::new("processes", together >= ENOUGH_PROCESSES, detail, "sysctl -w kernel.pid_max=4194304")
}

fn loop_devices() -> Check {
    let ok = Path::new("/dev/loop-control").exists();
    Check::new("loop devices", ok, if ok { "there" } else { "no /dev/loop-control" }, "modprobe loop")
}

/// No built feature needs this, so its absence has no fix.
fn kvm() -> Check {
    let ok = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    Check::new(
        "kvm",
        ok,
        if ok {
            "there (whether a guest boots, its driver will say)"
        } else {
            "no usable /dev/kvm; virtual machines need it"
        },
        "",
    )
}

fn program(name: &'static str, package: &str, purpose: &str) -> Check {
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin", "/usr/local/sbin"];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    let detail = found
        .as_ref()
        .map_or_else(|| format!("not installed; it {purpose}"), |path| path.display().to_string());
    Check::new(name, found.is_some(), detail, &format!("apt-get install {package}"))
}

fn room(name: &'static str, path: &Path) -> Check {
    let existing = nearest_existing(path);
    let Ok(facts) = rustix::fs::statvfs(&existing) else {
        return Check::new(name, false, format!("{} can't be read", existing.display()), "");
    };
    let free_mib = facts.f_bavail.saturating_mul(facts.f_frsize) / (1024 * 1024);
    let detail = format!("{} GiB free at {}", free_mib / 1024, path.display());
    Check::new(
        name,
        free_mib >= ROOM_MIB,
        detail,
        "make room, or choose another place with --data or --cache",
    )
}

fn nearest_existing(path: &Path) -> PathBuf {
    path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/")).to_owned()
}

/// Reads a file; an unreadable one counts as empty.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_finding_needs_no_fix_and_a_bad_one_has_it() {
        assert_eq!(Check::new("x", true, "d", "do it").fix, None);
        assert_eq!(Check::new("x", false, "d", "do it").fix.as_deref(), Some("do it"));
        assert_eq!(
            program("no-such-program", "nothing", "does nothing").fix.as_deref(),
            Some("apt-get install nothing")
        );
    }

    /// The kernel passes core dumps to a socket whatever their limit is.
    #[test]
    fn a_socket_for_core_dumps_is_warned_of() {
        for pattern in ["core", "/var/crash/%p", "|/usr/lib/systemd/systemd-coredump %P"] {
            assert!(judge_core_pattern(pattern).ok, "{pattern}");
        }
        for pattern in ["@/run/cores.sock", "@@/run/cores.sock"] {
            let check = judge_core_pattern(pattern);
            assert!(!check.ok && check.detail.ends_with("socket /run/cores.sock"), "{check:?}");
            assert!(check.fix.is_some_and(|fix| fix.contains("core_pattern")));
        }
    }

    #[test]
    fn room_is_measured_where_the_folder_will_be() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(nearest_existing(&home.path().join("a/b/c")), home.path());
        assert!(room("room", home.path()).detail.contains("GiB free"));
    }
}
