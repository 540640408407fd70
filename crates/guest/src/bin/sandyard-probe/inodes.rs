//! Checks that two sandboxes share no inode, to which watches and locks belong.
//!
//! `watch` has the kernel tell about files that every sandbox has, prints `ready`, and reports once its workspace has a file
//! `enough`. `hold` locks the same files, prints `ready` and stays. `locks` reports which of them can still be locked.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FlockOperation, flock};

use crate::neighbours::{say_ready, stay};
use crate::{ProbeFinding, outcome, report};

/// Files that every sandbox has and that the suite uses in the other one only. Those of the guest are not in virtual machines.
const COMMON: [&str; 5] = [
    "/usr/bin/sha512sum",
    "/etc/debian_version",
    "/dev/full",
    "/run/guest/sandyard-guest",
    "/run/guest/sandyard-agent",
];
/// Directory whose watcher learns the names of programs that are started, and the program that is looked for.
const PROGRAMS: (&str, &str) = ("/usr/bin", "sha512sum");
/// Directory and name of the file that ends a watch.
const END: (&str, &str) = ("/workspace", "enough");
/// Room for many events at once.
const EVENT_BYTES: usize = 64 * 1024;

/// Watches until the end, then reports whether anything was seen.
pub(crate) fn watch() -> ExitCode {
    match watched() {
        Ok(findings) => report(&findings),
        Err(error) => report(&[ProbeFinding::new("N13.watch", outcome::<String>(Err(error)))]),
    }
}

fn watched() -> io::Result<Vec<ProbeFinding>> {
    let instance = inotify::init(CreateFlags::CLOEXEC)?;
    let add = |path: &str| inotify::add_watch(&instance, path, WatchFlags::ALL_EVENTS);
    let mut seen = Vec::new();
    for path in common() {
        seen.push((add(path)?, path, "quiet"));
    }
    let programs = add(PROGRAMS.0)?;
    seen.push((programs, PROGRAMS.0, "quiet"));
    let end = add(END.0)?;
    say_ready()?;
    let mut room = vec![std::mem::MaybeUninit::uninit(); EVENT_BYTES];
    let mut events = inotify::Reader::new(&instance, &mut room);
    loop {
        let event = events.next()?;
        let name = event.file_name().map(|name| name.to_string_lossy());
        if event.wd() == end && name.as_deref() == Some(END.1) {
            break;
        }
        // Commands of this sandbox use the directory too.
        let told = event.wd() != programs || name.as_deref() == Some(PROGRAMS.1);
        seen.iter_mut().filter(|(watch, ..)| told && *watch == event.wd()).for_each(|entry| entry.2 = "seen");
    }
    Ok(seen.iter().map(|(_, path, told)| ProbeFinding::new(format!("N13.watch.{path}"), *told)).collect())
}

/// Locks all of them and stays.
pub(crate) fn hold() -> ExitCode {
    let held: Vec<_> = common().map(lock).collect();
    if held.iter().any(Result::is_err) {
        return report(&[ProbeFinding::new("N13.lock", format!("{held:?}"))]);
    }
    stay()
}

/// Tries to lock all of them.
pub(crate) fn locks() -> ExitCode {
    let findings = common()
        .map(|path| ProbeFinding::new(format!("N13.lock.{path}"), outcome(lock(path).map(|_| "free"))));
    report(&findings.collect::<Vec<_>>())
}

fn common() -> impl Iterator<Item = &'static str> {
    COMMON.into_iter().filter(|path| Path::new(path).exists())
}

fn lock(path: &str) -> io::Result<File> {
    let file = File::open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}
