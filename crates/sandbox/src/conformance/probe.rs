//! The probe's report, judged: the table here is what a sandbox must look like from inside.
//!
//! A check that the probe reports and the table does not know fails, and so does one that the table knows and the probe does not
//! report: neither side can drift.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Outcome, Session, SessionError, Subject};
use crate::driver::Limits;

/// What is judged by one rule.
enum Rule {
    /// Exactly this.
    Is(&'static str),
    /// One of these.
    OneOf(&'static [&'static str]),
    /// Another namespace than the host's.
    NotTheHosts(&'static str),
    /// Refused by the system-call filter.
    Refused,
    /// Not there, or can't be opened.
    Closed,
    /// Nothing in it, not there, or can't be read.
    Empty,
    /// Judged by a function.
    Holds(fn(&str) -> bool),
}

/// EPERM and ENOSYS.
const REFUSED: [&str; 2] = ["errno 1", "errno 38"];
/// ENOENT, EACCES, EPERM, EROFS, ENXIO, ENOTDIR.
const CLOSED: [&str; 6] = ["errno 2", "errno 13", "errno 1", "errno 30", "errno 6", "errno 20"];
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
    ("K8.clone3", Rule::Is("errno 38")),
    // 3 is the directory that is being read.
    ("K9.descriptors", Rule::Is("0 1 2 3")),
    ("K10.cwd", Rule::Is("/workspace")),
    ("K13.writable_elsewhere", Rule::Is("")),
    ("K13.", Rule::Holds(|found| found == "the null device" || CLOSED.contains(&found))),
    ("K14.sys", Rule::Empty),
    ("K15.devices_elsewhere", Rule::Is("")),
    ("K15.dev", Rule::Holds(only_plain_devices)),
    ("K15.without_nodev", Rule::Holds(only_devices)),
    ("K15.use.", Rule::Is("opened")),
    ("K15.mknod", Rule::Closed),
    ("K16.", Rule::Closed),
    ("K17.processes", Rule::Holds(only_ours)),
    ("K17.ptrace_first", Rule::Refused),
    ("K20.", Rule::Empty),
    ("D9.root_flags", Rule::Holds(|flags| flags.split(',').any(|flag| flag == "ro"))),
    ("D9.mounts", Rule::Holds(|targets| !targets.contains("/oldroot") && !targets.contains(".disk"))),
    ("N1.interfaces", Rule::Is("lo")),
    ("N1.routes", Rule::Is("")),
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

/// One line of the report.
#[derive(Debug, Deserialize)]
struct Finding {
    check: String,
    result: String,
}

/// Where the probe was built.
pub fn probe_program() -> PathBuf {
    PathBuf::from(env!("SANDYARD_PROBE_BINARY"))
}

/// Runs the probe in a sandbox and judges its report.
pub async fn probe(subject: &Subject) -> Result<Vec<Outcome>, SessionError> {
    let session = Session::start((subject.open)(), subject.spec("probe-1", Limits::default())?).await?;
    let program = std::fs::read(probe_program()).map_err(SessionError::Probe)?;
    session.upload("probe", &program).await?;
    let ran = session.run(&["/workspace/probe"]).await?;
    let findings: Vec<Finding> =
        ran.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let ended = Outcome::new("probe", ran.exit.code == 0, format!("{:?} {}", ran.exit, ran.stderr));
    session.stop().await?;
    Ok(std::iter::once(ended).chain(judge_all(&findings, subject.own_kernel)).collect())
}

fn judge_all(findings: &[Finding], own_kernel: bool) -> Vec<Outcome> {
    let first = if own_kernel { RULES_OF_OWN_KERNEL } else { &[] };
    let mut used: BTreeMap<&str, usize> = RULES.iter().map(|(prefix, _)| (*prefix, 0)).collect();
    let mut outcomes = Vec::new();
    for Finding { check, result } in findings {
        match first.iter().chain(RULES).find(|(prefix, _)| check.starts_with(prefix)) {
            Some((prefix, rule)) => {
                *used.entry(prefix).or_default() += 1;
                outcomes.push(Outcome::new(check, rule.allows(result), result));
            }
            None => outcomes.push(Outcome::new(check, false, "no rule judges it")),
        }
    }
    let unused = used.into_iter().filter(|(_, count)| *count == 0);
    outcomes.extend(unused.map(|(prefix, _)| Outcome::new(prefix, false, "was not reported")));
    outcomes
}

impl Rule {
    fn allows(&self, result: &str) -> bool {
        match self {
            Self::Is(expected) => result == *expected,
            Self::OneOf(expected) => expected.contains(&result),
            Self::NotTheHosts(name) => result.starts_with(&format!("{name}:[")) && result != hosts(name),
            Self::Refused => REFUSED.contains(&result),
            Self::Closed => CLOSED.contains(&result),
            Self::Empty => result.is_empty() || result == "0 bytes" || CLOSED.contains(&result),
            Self::Holds(judge) => judge(result),
        }
    }
}

fn hosts(namespace: &str) -> String {
    let link = std::fs::read_link(Path::new("/proc/self/ns").join(namespace));
    link.map(|link| link.display().to_string()).unwrap_or_default()
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
