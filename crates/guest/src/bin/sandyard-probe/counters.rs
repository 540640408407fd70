//! Reports which counters of the whole host /proc shows: they would tell a job when its neighbours work, and how many there are.

use std::fs;
use std::io;
use std::path::Path;

use crate::{ProbeFinding, outcome};

/// Counters among the kernel's settings: open files, inodes, names, and terminals of everybody.
const AMONG_SETTINGS: &[&str] = &[
    "/proc/sys/fs/aio-nr",
    "/proc/sys/fs/dentry-state",
    "/proc/sys/fs/file-nr",
    "/proc/sys/fs/inode-nr",
    "/proc/sys/fs/inode-state",
    "/proc/sys/kernel/pty/nr",
];

/// Reports every entry of /proc that says something, and the numbers in those that programs need.
pub(crate) fn all() -> Vec<ProbeFinding> {
    let mut findings = vec![ProbeFinding::new("K24.proc", talking())];
    for path in AMONG_SETTINGS {
        let told = fs::read_to_string(path).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        findings.push(ProbeFinding::new(format!("K24.{path}"), outcome(told)));
    }
    for name in ["loadavg", "stat", "vmstat", "cgroups"] {
        let told = fs::read_to_string(Path::new("/proc").join(name)).map(|text| numbers(&text));
        findings.push(ProbeFinding::new(format!("K24.faked.{name}"), outcome(told)));
    }
    findings
}

/// Names in /proc, but for those of processes, that are neither empty nor closed.
fn talking() -> String {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.parse::<u32>().is_err())
        .filter(|name| says_something(&Path::new("/proc").join(name)).unwrap_or(false))
        .collect();
    names.sort();
    names.join(" ")
}

fn says_something(path: &Path) -> io::Result<bool> {
    use std::io::Read;
    if fs::metadata(path)?.is_dir() {
        return Ok(fs::read_dir(path)?.next().is_some());
    }
    Ok(fs::File::open(path)?.read(&mut [0; 16])? > 0)
}

/// Names of the lines with a number above 1, but for the time of the boot.
fn numbers(text: &str) -> String {
    let tells = |line: &&str| {
        let numbers = line.split([' ', '\t', '/']).filter_map(|word| word.parse::<f64>().ok());
        !line.starts_with("btime") && numbers.into_iter().any(|number| number > 1.0)
    };
    let names = text.lines().filter(tells).filter_map(|line| line.split_whitespace().next());
    names.collect::<Vec<_>>().join(" ")
}
