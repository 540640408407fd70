//! The probe's report, judged: the table here is what a sandbox must look like from inside.
//!
//! A check that the probe reports and the table does not know fails, and so does one that the table knows and the probe does not
//! report: neither side can drift.

use std::path::{Path, PathBuf};

use super::rules::{Rule, Table, is_closed};
use super::{Outcome, Ran, Session, SessionError, Subject};
use sandyard_sandbox::driver::Limits;

const NO_CAPABILITY: &str = "0000000000000000";

/// The first rule whose prefix fits a check's name judges it.
const RULES: &[(&str, Rule)] = &[
    ("K1.pid", Rule::NotTheHosts("pid")),
    ("K1.mnt", Rule::NotTheHosts("mnt")),
    ("K1.net", Rule::NotTheHosts("net")),
    ("K1.uts", Rule::NotTheHosts("uts")),
    ("K1.ipc", Rule::NotTheHosts("ipc")),
    ("K1.cgroup", Rule::NotTheHosts("cgroup")),
    ("K1.user", Rule::NotTheHosts("user")),
    ("K2.Uid", Rule::Is("1000 1000 1000 1000")),
    ("K2.Gid", Rule::Is("1000 1000 1000 1000")),
    ("K2.Groups", Rule::OneOf(&["", "1000"])),
    ("K2.Cap", Rule::Is(NO_CAPABILITY)),
    ("K2.NoNewPrivs", Rule::Is("1")),
    ("K2.Seccomp", Rule::Is("2")),
    ("K3.own_copy", Rule::Is("1000 1000 1000 1000")),
    ("K3.without_nosuid", Rule::Is("")),
    ("K3.set_user_id", Rule::Is("")),
    ("K3.tree", Rule::Is("walked")),
    ("K4.", Rule::Refused),
    ("K5.socket.netlink_route", Rule::Is("allowed")),
    ("K5.socket.inet_raw", Rule::Refused),
    ("K5.socket.inet", Rule::Is("allowed")),
    ("K5.socket.unix", Rule::Is("allowed")),
    ("K5.", Rule::Refused),
    ("K6.int80", Rule::OneOf(&["signal 31", "errno 38"])),
    ("K6.elf32", Rule::OneOf(&["signal 31", "errno 8", "errno 1"])),
    ("K6.x32", Rule::OneOf(&["signal 31", "errno 38", "errno 1"])),
    ("K7.tasks", Rule::Is("2 1 0000000000000000 0000000000000000")),
    ("K8.clone3", Rule::Is("errno 38")),
    // 3 is the directory that is being read.
    ("K9.descriptors", Rule::Is("0 1 2 3")),
    ("K10.cwd", Rule::Is("/workspace")),
    ("K13.writable_elsewhere", Rule::Is("")),
    ("K13.writable_in_proc", Rule::Is("")),
    ("K13.", Rule::Holds(|found| found == "the null device" || is_closed(found))),
    ("K14.sys", Rule::Empty),
    ("K15.devices_elsewhere", Rule::Is("")),
    ("K15.dev", Rule::Holds(only_plain_devices)),
    ("K15.without_nodev", Rule::Holds(only_devices)),
    ("K15.use.", Rule::Is("opened")),
    ("K15.mknod", Rule::Closed),
    ("K16.", Rule::Closed),
    ("K17.processes", Rule::Holds(only_ours)),
    ("K17.signal", Rule::Is("")),
    ("K17.first.", Rule::Closed),
    ("K17.ptrace_first", Rule::Refused),
    ("K20.", Rule::Empty),
    ("D9.propagation", Rule::Is("")),
    ("D9.root_flags", Rule::Holds(|flags| flags.split(',').any(|flag| flag == "ro"))),
    ("D9.mounts", Rule::Holds(|targets| !targets.contains("/oldroot") && !targets.contains(".disk"))),
    ("F4.", Rule::OneOf(&["errno 18", "errno 1", "errno 13"])),
    ("N1.interfaces", Rule::Is("lo")),
    ("N1.routes", Rule::Is("")),
    ("N1.", Rule::Unreachable),
    ("N6.", Rule::Unreachable),
    ("N7.", Rule::Unreachable),
    ("N8.socket.", Rule::Refused),
    ("N8.", Rule::Unreachable),
    // The loop of a task speaks to keeper there; others are not listened to.
    ("N11.sockets", Rule::Is("/run/job/agent.sock")),
    ("N11.", Rule::Empty),
    ("R16.uid_map", Rule::Holds(is_own_range)),
    ("W./workspace", Rule::Is("written")),
    ("W./home/agent", Rule::Is("written")),
    ("W./tmp", Rule::Is("written")),
    ("W./var/tmp", Rule::Is("written")),
    ("W./dev/shm", Rule::Is("written")),
    ("W./run/user/1000", Rule::Is("written")),
    ("W./", Rule::Closed),
];

/// Where these checks lead elsewhere in a machine with a kernel of its own: its users are that kernel's, and nobody else's.
const RULES_OF_OWN_KERNEL: &[(&str, Rule)] = &[
    ("K1.user", Rule::Holds(|found| found.starts_with("user:["))),
    ("R16.uid_map", Rule::Holds(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))),
];

/// Returns the path of the probe program.
pub fn probe_program() -> PathBuf {
    Path::new(env!("SANDYARD_GUEST_FOLDER")).join("sandyard-probe")
}

/// Runs the probe in a sandbox and judges its report.
pub async fn probe(subject: &Subject) -> Result<Vec<Outcome>, SessionError> {
    let session = Session::start((subject.open)(), subject.spec("probe-1", Limits::default())?).await?;
    session.upload_probe().await?;
    let before = switches();
    let ran = session.run(&["/workspace/probe"]).await?;
    let ended = Outcome::new("probe", ran.exit.code == 0, format!("{:?} {}", ran.exit, ran.stderr));
    let first = if subject.own_kernel { RULES_OF_OWN_KERNEL } else { &[] };
    let mut outcomes = Table { first, rules: RULES }.judge(&ran.stdout);
    outcomes.push(ended);
    outcomes.push(Outcome::new(
        "K13.host",
        before == switches(),
        format!("{before:?} became {:?}", switches()),
    ));
    outcomes.extend(working_directories(&session).await?);
    session.stop().await?;
    Ok(outcomes)
}

/// Switches of the host that a sandbox which could write to proc would have changed.
fn switches() -> Vec<String> {
    let names = ["core_pattern", "hostname", "modprobe", "sysrq", "panic", "hotplug", "randomize_va_space"];
    let read = |name: &&str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    names.iter().map(read).collect()
}

/// K10: wherever a command is asked to begin, it is inside or nowhere.
async fn working_directories(session: &Session) -> Result<Vec<Outcome>, SessionError> {
    session.shell("ln -s / root-link; ln -s /proc/1/root first-root; ln -s /proc/self/fd fd-link").await?;
    let places =
        ["/proc/self/fd/7", "/proc/self/fd/3/..", "../../../../..", "root-link", "first-root", "fd-link/8"];
    let mut outcomes = Vec::new();
    for place in places {
        let (inside, found) = match session.run_in(place, &["/workspace/probe", "where"]).await {
            Ok(Ran { stdout, .. }) => (stdout.starts_with('/') && stdout.ends_with(" inside\n"), stdout),
            Err(SessionError::Machine(refused)) => (true, refused.to_string()),
            Err(other) => return Err(other),
        };
        outcomes.push(Outcome::new(format!("K10.begin {place}"), inside, found));
    }
    Ok(outcomes)
}

/// The usual names; `core` is a link that runtimes make to what is covered in proc.
fn only_plain_devices(names: &str) -> bool {
    let expected = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero";
    names.split(' ').filter(|name| *name != "core").eq(expected.split(' '))
}

/// Device nodes are mounted one by one, and covers of files in proc are one of them; everything else refuses devices.
fn only_devices(targets: &str) -> bool {
    targets.split(' ').all(|target| target.starts_with("/dev/") || target.starts_with("/proc/"))
}

/// The spawner, the probe, and the programs that led to it.
fn only_ours(names: &str) -> bool {
    let known = ["sandyard-guest", "probe", "memfd:sandyard-", "3", "4", "5", "bash"];
    !names.is_empty() && names.split(' ').all(|name| known.contains(&name))
}

/// Either a whole range of the host's, or just those ids that exist inside; never the host's root.
fn is_own_range(map: &str) -> bool {
    let fields: Vec<_> = map.split_whitespace().filter_map(|field| field.parse::<u64>().ok()).collect();
    let single = |line: &[u64]| matches!(line, [_, outside, 1] if *outside > 0);
    match fields.as_slice() {
        [0, base, 65_536] => *base >= 65_536,
        few => few.len() == 12 && few.starts_with(&[0]) && few.chunks(3).all(single),
    }
}
