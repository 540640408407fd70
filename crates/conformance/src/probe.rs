//! Judges the probe's report: the table describes a sandbox as seen from inside.
//!
//! A check that the probe reports and the table does not know fails, and so does one that the table knows and the probe does not
//! report: neither side can drift.

use super::rules::{CheckRule, RuleTable, is_closed};
use super::{CheckOutcome, CommandResult, DriverSubject, SandboxSession, SuiteError};
use sandyard_sandbox::driver::Limits;

const NO_CAPABILITY: &str = "0000000000000000";
/// Tools that read counters of the kernel. One that the image lacks is not tried.
const TOOLS: [&str; 8] = [
    "free",
    "uptime",
    "ps -ef",
    "top -bn1",
    "vmstat",
    "w",
    "python3 -c 'import os; assert len(os.getloadavg()) == 3'",
    "node -e 'require(\"os\").cpus(); require(\"os\").loadavg(); require(\"os\").freemem()'",
];

/// Rules by the beginning of a check's name. The first that fits judges the check.
const RULES: &[(&str, CheckRule)] = &[
    ("K1.pid", CheckRule::NotTheHosts("pid")),
    ("K1.mnt", CheckRule::NotTheHosts("mnt")),
    ("K1.net", CheckRule::NotTheHosts("net")),
    ("K1.uts", CheckRule::NotTheHosts("uts")),
    ("K1.ipc", CheckRule::NotTheHosts("ipc")),
    ("K1.cgroup", CheckRule::NotTheHosts("cgroup")),
    ("K1.user", CheckRule::NotTheHosts("user")),
    ("K2.Uid", CheckRule::Is("1000 1000 1000 1000")),
    ("K2.Gid", CheckRule::Is("1000 1000 1000 1000")),
    ("K2.Groups", CheckRule::OneOf(&["", "1000"])),
    ("K2.Cap", CheckRule::Is(NO_CAPABILITY)),
    ("K2.NoNewPrivs", CheckRule::Is("1")),
    ("K2.Seccomp", CheckRule::Is("2")),
    ("K3.own_copy", CheckRule::Is("1000 1000 1000 1000")),
    ("K3.without_nosuid", CheckRule::Is("")),
    ("K3.set_user_id", CheckRule::Is("")),
    ("K3.tree", CheckRule::Is("walked")),
    ("K4.", CheckRule::Refused),
    ("K5.socket.netlink_route", CheckRule::Is("allowed")),
    ("K5.socket.inet_raw", CheckRule::Refused),
    ("K5.socket.inet", CheckRule::Is("allowed")),
    ("K5.socket.unix", CheckRule::Is("allowed")),
    ("K5.", CheckRule::Refused),
    #[cfg(target_arch = "x86_64")]
    ("K6.int80", CheckRule::OneOf(&["signal 31", "errno 38"])),
    ("K6.elf32", CheckRule::OneOf(&["signal 31", "errno 8", "errno 1"])),
    #[cfg(target_arch = "x86_64")]
    ("K6.x32", CheckRule::OneOf(&["signal 31", "errno 38", "errno 1"])),
    ("K7.tasks", CheckRule::Is("2 1 0000000000000000 0000000000000000")),
    ("K8.clone3", CheckRule::Is("errno 38")),
    // Number 3 is the directory that is being read.
    ("K9.descriptors", CheckRule::Is("0 1 2 3")),
    ("K10.cwd", CheckRule::Is("/workspace")),
    ("K13.writable_elsewhere", CheckRule::Is("")),
    ("K13.writable_in_proc", CheckRule::Is("")),
    ("K13.", CheckRule::Holds(|found| found == "the null device" || is_closed(found))),
    // The shown limits (`shown_size`), and nothing of the kernel's.
    ("K14.sys", CheckRule::Is("devices fs")),
    ("K15.devices_elsewhere", CheckRule::Is("")),
    ("K15.dev", CheckRule::Holds(only_plain_devices)),
    ("K15.without_nodev", CheckRule::Holds(only_devices)),
    ("K15.use.", CheckRule::Is("opened")),
    ("K15.mknod", CheckRule::Closed),
    ("K16.", CheckRule::Closed),
    ("K17.processes", CheckRule::Holds(only_ours)),
    ("K17.signal", CheckRule::Is("")),
    ("K17.first.", CheckRule::Closed),
    ("K17.ptrace_first", CheckRule::Refused),
    ("K20.", CheckRule::Empty),
    ("K23.limit.", CheckRule::Is("1 1")),
    ("K23.parts", CheckRule::Is("00000000")),
    ("K24.proc", CheckRule::Holds(only_needed_files)),
    ("K24./proc/sys", CheckRule::Empty),
    ("K24.faked.", CheckRule::Is("")),
    ("D9.propagation", CheckRule::Is("")),
    ("D9.above_root", CheckRule::Is("the root")),
    ("D9.root_flags", CheckRule::Holds(|flags| flags.split(',').any(|flag| flag == "ro"))),
    ("D9.mounts", CheckRule::Holds(|targets| !targets.contains("/oldroot") && !targets.contains(".disk"))),
    ("F4.", CheckRule::OneOf(&["errno 18", "errno 1", "errno 13"])),
    ("N1.interfaces", CheckRule::Is("lo")),
    ("N1.routes", CheckRule::Is("")),
    ("N1.", CheckRule::Unreachable),
    ("N6.", CheckRule::Unreachable),
    ("N7.", CheckRule::Unreachable),
    ("N8.socket.", CheckRule::Refused),
    ("N8.request.", CheckRule::Refused),
    ("N8.", CheckRule::Unreachable),
    // The loop of a task talks to keeper there; keeper listens to nobody else.
    ("N11.sockets", CheckRule::Is("/run/job/agent.sock")),
    ("N11.", CheckRule::Empty),
    ("R16.uid_map", CheckRule::Holds(is_own_range)),
    ("W./workspace", CheckRule::Is("written")),
    ("W./home/agent", CheckRule::Is("written")),
    ("W./tmp", CheckRule::Is("written")),
    ("W./var/tmp", CheckRule::Is("written")),
    ("W./dev/shm", CheckRule::Is("written")),
    ("W./run/user/1000", CheckRule::Is("written")),
    ("W./", CheckRule::Closed),
];

/// Rules that differ for a machine with a kernel of its own: its users belong to that kernel alone.
const RULES_OF_OWN_KERNEL: &[(&str, CheckRule)] = &[
    ("K1.user", CheckRule::Holds(|found| found.starts_with("user:["))),
    // Its counters count nobody else.
    ("K24.proc", CheckRule::Holds(|found| !found.is_empty())),
    ("K24./proc/sys", CheckRule::Holds(|_| true)),
    ("K24.faked.", CheckRule::Holds(|_| true)),
    ("R16.uid_map", CheckRule::Holds(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))),
];

/// Runs the probe in a sandbox and judges its report.
pub async fn probe(subject: &DriverSubject) -> Result<Vec<CheckOutcome>, SuiteError> {
    let session =
        SandboxSession::start((subject.open)(), subject.spec("probe-1", Limits::default())?).await?;
    session.upload_probe().await?;
    let before = switches();
    let ran = session.run(&["/workspace/probe"]).await?;
    let ended = CheckOutcome::new("probe", ran.exit.code == 0, format!("{:?} {}", ran.exit, ran.stderr));
    let first = if subject.own_kernel { RULES_OF_OWN_KERNEL } else { &[] };
    let mut outcomes = RuleTable { first, rules: RULES }.judge(&ran.stdout);
    outcomes.push(ended);
    outcomes.push(CheckOutcome::new(
        "K13.host",
        before == switches(),
        format!("{before:?} became {:?}", switches()),
    ));
    outcomes.extend(working_directories(&session).await?);
    outcomes.extend(crash(&session).await?);
    outcomes.extend(tools(&session).await?);
    session.stop().await?;
    Ok(outcomes)
}

/// Switches of the host that a sandbox which could write to proc would have changed.
fn switches() -> Vec<String> {
    let names = ["core_pattern", "hostname", "modprobe", "sysrq", "panic", "hotplug", "randomize_va_space"];
    let read = |name: &&str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    names.iter().map(read).collect()
}

/// K10: asks a command to begin in several directories. It must run inside or not at all.
async fn working_directories(session: &SandboxSession) -> Result<Vec<CheckOutcome>, SuiteError> {
    session.shell("ln -s / root-link; ln -s /proc/1/root first-root; ln -s /proc/self/fd fd-link").await?;
    let places =
        ["/proc/self/fd/7", "/proc/self/fd/3/..", "../../../../..", "root-link", "first-root", "fd-link/8"];
    let mut outcomes = Vec::new();
    for place in places {
        let (inside, found) = match session.run_in(place, &["/workspace/probe", "where"]).await {
            Ok(CommandResult { stdout, .. }) => {
                (stdout.starts_with('/') && stdout.ends_with(" inside\n"), stdout)
            }
            Err(SuiteError::Machine(refused)) => (true, refused.to_string()),
            Err(other) => return Err(other),
        };
        outcomes.push(CheckOutcome::new(format!("K10.begin {place}"), inside, found));
    }
    Ok(outcomes)
}

/// K23: a job that gives core dumps up, as the host's handler would need it, crashes without one. Programs that give them up
/// for the sake of their secrets get no error.
async fn crash(session: &SandboxSession) -> Result<Vec<CheckOutcome>, SuiteError> {
    let limits = session.shell("ulimit -c 0 && grep core /proc/self/limits").await?;
    let kept =
        limits.stdout.split_whitespace().collect::<Vec<_>>().join(" ") == "Max core file size 1 1 bytes";
    let crashed =
        session.shell("ulimit -c 0; bash -c 'kill -SEGV $$'; echo $?; ls core* 2>/dev/null").await?;
    Ok(vec![
        CheckOutcome::new("K23.shell", kept, format!("{limits:?}")),
        CheckOutcome::new("K23.crash", crashed.stdout == "139\n", format!("{crashed:?}")),
    ])
}

/// K24: tools that read the faked counters still work.
async fn tools(session: &SandboxSession) -> Result<Vec<CheckOutcome>, SuiteError> {
    let mut outcomes = Vec::new();
    for tool in TOOLS {
        let script =
            format!("command -v {} >/dev/null || exit 0; {tool}", tool.split(' ').next().unwrap_or(tool));
        let ran = session.shell(&script).await?;
        let well = ran.exit.code == 0 && ran.stderr.is_empty();
        outcomes.push(CheckOutcome::new(format!("K24.tool {tool}"), well, format!("{ran:?}")));
    }
    Ok(outcomes)
}

/// Accepts files that programs need, and whose counters are faked or belong to the sandbox.
fn only_needed_files(names: &str) -> bool {
    let needed = "cgroups cpuinfo filesystems loadavg meminfo mounts net self stat sys sysvipc thread-self tty uptime \
                  version vmstat";
    !names.is_empty() && names.split(' ').all(|name| needed.split_whitespace().any(|one| one == name))
}

/// Accepts the usual names. `core` is a link that runtimes make to a file that is covered in proc.
fn only_plain_devices(names: &str) -> bool {
    let expected = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero";
    names.split(' ').filter(|name| *name != "core").eq(expected.split(' '))
}

/// Accepts mounts that allow devices: /dev, which is read-only, or device nodes that are mounted one by one;
/// one of them covers files in proc.
fn only_devices(targets: &str) -> bool {
    targets
        .split(' ')
        .all(|target| target == "/dev" || target.starts_with("/dev/") || target.starts_with("/proc/"))
}

/// Accepts the spawner, the probe, and the programs that started it.
fn only_ours(names: &str) -> bool {
    let known = ["sandyard-guest", "probe", "memfd:sandyard-", "3", "4", "5", "bash"];
    !names.is_empty() && names.split(' ').all(|name| known.contains(&name))
}

/// Accepts a whole range of the host's ids, or only the ids that exist inside; never the host's root.
fn is_own_range(map: &str) -> bool {
    let fields: Vec<_> = map.split_whitespace().filter_map(|field| field.parse::<u64>().ok()).collect();
    let single = |line: &[u64]| matches!(line, [_, outside, 1] if *outside > 0);
    match fields.as_slice() {
        [0, base, 65_536] => *base >= 65_536,
        few => few.len() == 12 && few.starts_with(&[0]) && few.chunks(3).all(single),
    }
}
