//! Attempts to write to directories, switches and devices, those that should work and those that must not.

use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::{ProbeFinding, outcome, sys};

/// Directories, those that should be writable and those that should not.
const DIRECTORIES: &[&str] = &[
    "/workspace",
    "/home/agent",
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/run/user/1000",
    "/",
    "/etc",
    "/usr/bin",
    "/var",
    "/run",
    "/dev",
    "/proc",
    "/run/keeper",
    "/run/sandyard",
    "/run/init",
    "/run/guest",
];
/// Switches of the kernel.
const SWITCHES: &[&str] = &[
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sysrq-trigger",
    "/proc/self/oom_score_adj.absent",
    "/sys/fs/cgroup/memory/release_agent",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/kernel/uevent_helper",
];
/// Devices that must not be there.
const DEVICES: &[&str] = &[
    "/dev/kvm",
    "/dev/fuse",
    "/dev/loop0",
    "/dev/loop-control",
    "/dev/net/tun",
    "/dev/userfaultfd",
    "/dev/mem",
    "/dev/kmsg",
    "/dev/console",
    "/dev/vda",
    "/dev/sda",
];

/// Files of others, which a second name in the workspace would let an export or a reader of the host take for the job's.
const FOREIGN: &[&str] =
    &["/etc/passwd", "/usr/bin/env", "/proc/self/status", "/proc/1/environ", "/dev/null"];

/// Major 1, minor 3.
const NULL_DEVICE: u64 = 0x103;

/// Makes every attempt of the table and reports its result.
pub(crate) fn all() -> Vec<ProbeFinding> {
    let mut findings: Vec<_> =
        DIRECTORIES.iter().map(|path| ProbeFinding::new(format!("W.{path}"), try_write(path))).collect();
    findings.extend(SWITCHES.iter().map(|path| ProbeFinding::new(format!("K13.{path}"), try_switch(path))));
    findings.extend(DEVICES.iter().map(|path| ProbeFinding::new(format!("K16.{path}"), try_open(path))));
    for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/ptmx"] {
        findings.push(ProbeFinding::new(format!("K15.use.{device}"), try_open(device)));
    }
    findings.extend(FOREIGN.iter().map(|path| ProbeFinding::new(format!("F4.{path}"), try_link(path))));
    findings.push(ProbeFinding::new("K3.own_copy", run_with_set_user_id()));
    findings.push(ProbeFinding::new(
        "K15.mknod",
        outcome(sys::make_device("/workspace/.probe-device").map(|()| "made")),
    ));
    findings
}

fn try_write(directory: &str) -> String {
    let path = Path::new(directory).join(".probe-file");
    let written = fs::write(&path, "probe");
    let _ = fs::remove_file(&path);
    outcome(written.map(|()| "written"))
}

fn try_open(path: &str) -> String {
    outcome(OpenOptions::new().read(true).write(true).open(path).map(|_| "opened"))
}

fn try_link(path: &str) -> String {
    let name = "/workspace/.probe-link";
    let linked = fs::hard_link(path, name);
    let _ = fs::remove_file(name);
    outcome(linked.map(|()| "linked"))
}

/// Who a copy of this program is when its file says that it runs as its owner and group.
fn run_with_set_user_id() -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = "/workspace/.probe-set-user-id";
    let made = fs::copy("/proc/self/exe", path)
        .and_then(|_| fs::set_permissions(path, fs::Permissions::from_mode(0o6755)));
    let ran = made.and_then(|()| std::process::Command::new(path).arg("who").output());
    let _ = fs::remove_file(path);
    outcome(ran.map(|ran| String::from_utf8_lossy(&ran.stdout).trim().to_owned()))
}

/// A switch may be covered by the null device, which takes everything and does nothing.
fn try_switch(path: &str) -> String {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let is_null =
        |metadata: fs::Metadata| metadata.file_type().is_char_device() && metadata.rdev() == NULL_DEVICE;
    if fs::metadata(path).is_ok_and(is_null) { "the null device".to_owned() } else { try_open(path) }
}
