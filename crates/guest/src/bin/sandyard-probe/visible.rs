//! Reports what the job can see: namespaces, its own status, mounts, devices, descriptors, processes, interfaces.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::{ProbeFinding, outcome, sys};

/// Files of proc and sys that tell about the host or its kernel.
const SECRET: &[&str] = &[
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/latency_stats",
    "/proc/kallsyms",
    "/proc/kpagemap",
    "/proc/kpageflags",
    "/proc/kmsg",
    "/proc/sched_debug",
    "/proc/1/environ",
];

/// Files of the spawner in /proc that would let the job into it: its memory, descriptors and directories. It has the job's user.
const OF_THE_FIRST: &[&str] = &["mem", "maps", "environ", "fd", "root", "cwd", "auxv", "syscall"];

/// The numbers that processes have where nobody has raised their limit.
const PROCESS_NUMBERS: std::ops::RangeInclusive<i32> = 1..=65_535;

/// Reports the parts of the host that a process of the job can see.
pub(crate) fn all() -> Vec<ProbeFinding> {
    let mut findings = namespaces();
    findings.extend(status());
    findings.extend(mounts());
    findings.push(ProbeFinding::new("K9.descriptors", names("/proc/self/fd")));
    findings.push(ProbeFinding::new("K15.dev", names("/dev")));
    findings.extend(SECRET.iter().map(|path| ProbeFinding::new(format!("K20.{path}"), readable(path))));
    findings.push(ProbeFinding::new("K7.tasks", tasks()));
    findings.push(ProbeFinding::new("K17.processes", processes()));
    findings.push(ProbeFinding::new("K17.signal", answering()));
    findings.extend(OF_THE_FIRST.iter().map(|name| {
        let path = format!("/proc/1/{name}");
        ProbeFinding::new(format!("K17.first.{name}"), outcome(fs::metadata(&path).and_then(|_| open(&path))))
    }));
    findings.push(ProbeFinding::new("K14.sys", names("/sys")));
    findings.push(ProbeFinding::new("N1.interfaces", interfaces()));
    findings.push(ProbeFinding::new("N1.routes", routes()));
    findings.push(ProbeFinding::new("N11.abstract", abstract_sockets()));
    findings.push(ProbeFinding::new("N11.link", names("/run/sandyard")));
    findings.push(ProbeFinding::new("N11.init", names("/run/init")));
    findings.push(ProbeFinding::new("N11.spool", names("/run/keeper")));
    findings
        .push(ProbeFinding::new("R16.uid_map", squeeze(&outcome(fs::read_to_string("/proc/self/uid_map")))));
    findings.push(ProbeFinding::new(
        "K10.cwd",
        outcome(std::env::current_dir().map(|path| path.display().to_string())),
    ));
    findings
}

fn namespaces() -> Vec<ProbeFinding> {
    ["pid", "mnt", "net", "uts", "ipc", "cgroup", "user"]
        .iter()
        .map(|name| {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).map(|link| link.display().to_string());
            ProbeFinding::new(format!("K1.{name}"), outcome(link))
        })
        .collect()
}

fn status() -> Vec<ProbeFinding> {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let wanted =
        ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"];
    let value =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(squeeze));
    wanted
        .iter()
        .map(|name| ProbeFinding::new(format!("K2.{name}"), value(name).unwrap_or_default()))
        .collect()
}

/// Mounts that lack a flag every mount should have, and the root's own flags.
fn mounts() -> Vec<ProbeFinding> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let field = |row: &[&str], number: usize| row.get(number).copied().unwrap_or_default().to_owned();
    let lacking = |flag: &str| -> String {
        let lacks = |row: &&Vec<&str>| !field(row, 5).split(',').any(|one| one == flag);
        let mut targets: Vec<_> = rows.iter().filter(lacks).map(|row| field(row, 4)).collect();
        targets.sort();
        targets.join(" ")
    };
    let root = rows.iter().find(|row| field(row, 4) == "/").map(|row| field(row, 5)).unwrap_or_default();
    let targets: Vec<_> = rows.iter().map(|row| field(row, 4)).collect();
    vec![
        ProbeFinding::new("K3.without_nosuid", lacking("nosuid")),
        ProbeFinding::new("K15.without_nodev", lacking("nodev")),
        ProbeFinding::new("D9.root_flags", root),
        ProbeFinding::new("D9.propagation", propagated(&rows)),
        ProbeFinding::new("D9.mounts", targets.join(" ")),
        ProbeFinding::new("D9.above_root", above_root()),
    ]
}

/// The directory above the root: the root itself, unless an older one is still mounted over it.
fn above_root() -> &'static str {
    let identity = |path: &str| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    if identity("/..") == identity("/") { "the root" } else { "another" }
}

/// Mounts that would take changes from elsewhere or pass them on: their optional fields say so.
fn propagated(rows: &[Vec<&str>]) -> String {
    let is_tied = |row: &&Vec<&str>| {
        row.iter().skip(6).take_while(|field| **field != "-").any(|field| *field != "unbindable")
    };
    rows.iter().filter(is_tied).filter_map(|row| row.get(4).copied()).collect::<Vec<_>>().join(" ")
}

/// Filter, no-new-privileges and capabilities of every task that can be seen, a second one of this process among them.
fn tasks() -> String {
    let look = || {
        let processes = numbers("/proc");
        let tasks = processes.iter().flat_map(|pid| {
            let folder = format!("/proc/{pid}/task");
            numbers(&folder).into_iter().map(move |task| format!("{folder}/{task}/status"))
        });
        let kinds: std::collections::BTreeSet<_> = tasks.map(|path| confinement(&path)).collect();
        kinds.into_iter().collect::<Vec<_>>().join("; ")
    };
    std::thread::scope(|scope| scope.spawn(look).join()).unwrap_or_default()
}

fn confinement(status: &str) -> String {
    let text = fs::read_to_string(status).unwrap_or_default();
    let fields = ["Seccomp:", "NoNewPrivs:", "CapEff:", "CapBnd:"];
    let value = |name: &&str| text.lines().find_map(|line| line.strip_prefix(*name)).map(str::trim);
    fields.iter().filter_map(value).collect::<Vec<_>>().join(" ")
}

/// Numbers that answer a signal but can't be looked up, as every process and every thread that is to be seen can. Asked twice, because
/// one may end in between.
fn answering() -> String {
    let is_seen = |pid: i32| fs::exists(format!("/proc/{pid}")).unwrap_or(false);
    let hidden = PROCESS_NUMBERS.filter(|&pid| sys::answers(pid) && !is_seen(pid) && sys::answers(pid));
    hidden.map(|pid| pid.to_string()).collect::<Vec<_>>().join(" ")
}

fn open(path: &str) -> std::io::Result<&'static str> {
    fs::File::open(path).map(|_| "opened")
}

/// How much of a file can be read, or the error's number.
fn readable(path: &str) -> String {
    use std::io::Read;
    let read = fs::File::open(path).and_then(|mut file| {
        let mut start = [0; 256];
        file.read(&mut start)
    });
    outcome(read.map(|bytes| format!("{bytes} bytes")))
}

fn names(path: &str) -> String {
    let names = fs::read_dir(path).map(|entries| {
        let mut names: Vec<_> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names.join(" ")
    });
    outcome(names)
}

/// Names of all processes that can be seen.
fn processes() -> String {
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).map(|text| text.trim().to_owned());
    let mut names: Vec<_> = numbers("/proc").iter().map(|pid| outcome(name(pid))).collect();
    names.sort();
    names.join(" ")
}

/// Entries of a directory that are numbers.
fn numbers(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Unix sockets with a name that needs no file.
fn abstract_sockets() -> String {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split_whitespace().nth(7));
    names.filter(|name| name.starts_with('@')).collect::<Vec<_>>().join(" ")
}

fn interfaces() -> String {
    let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let names: Vec<_> =
        text.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim).collect();
    names.join(" ")
}

/// Routes that lead anywhere else than to loopback.
fn routes() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let plain = read("/proc/net/route");
    // The first line names the columns of the one; the other has none, and ends in the interface.
    let plain = plain.lines().skip(1).filter(|line| !line.starts_with("lo"));
    let newer = read("/proc/net/ipv6_route");
    let newer = newer.lines().filter(|line| line.split_whitespace().last() != Some("lo"));
    plain.chain(newer).map(squeeze).collect::<Vec<_>>().join("; ")
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
