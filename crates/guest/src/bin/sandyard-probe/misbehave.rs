//! Small programs that misbehave in one way each.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::fill::fill;
use crate::{inodes, neighbours, outcome, sys};

/// Runs the program of this name.
pub(crate) fn run(name: &str, arguments: &[String]) -> ExitCode {
    let number = arguments.first().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let said = match name {
        "eat-memory" => eat_memory(),
        "burn" => burn(Duration::from_millis(number)),
        "open-files" => open_files(),
        "fork-many" => sys::fork_many(number),
        "fill" => fill(arguments.first().map_or("", String::as_str)),
        "who" => return who_am_i(),
        "dirty" => return dirty(arguments),
        "sync" => return sync_everything(),
        "where" => return where_am_i(),
        "swap" => return swap(arguments),
        "machine" => flood_console(),
        "hide" => return sys::hide_from_signals(),
        "serve" => return neighbours::serve(),
        "exhaust" => return neighbours::exhaust(),
        "reach" => return neighbours::reach(arguments),
        "watch" => return inodes::watch(),
        "hold" => return inodes::hold(),
        "locks" => return inodes::locks(),
        _ => return ExitCode::from(2),
    };
    match writeln!(std::io::stdout(), "{said}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Touches memory until something stops it.
fn eat_memory() -> u64 {
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        held.push(vec![u8::try_from(held.len() % 255 + 1).unwrap_or(1); 1024 * 1024]);
    }
}

/// Computes for this time. The result means nothing.
fn burn(time: Duration) -> u64 {
    let end = Instant::now() + time;
    let mut turns = 0_u64;
    while Instant::now() < end {
        turns = std::hint::black_box(turns + 1);
    }
    turns
}

/// Prints without end on the console, as the first process of a machine (by the name that a driver gives it).
fn flood_console() -> u64 {
    let line = [b"flood ".repeat(170), b"\n".to_vec()].concat();
    loop {
        // A console that takes no more is the host's affair.
        let _ = std::io::stdout().write_all(&line);
    }
}

/// Opens files until refused. Returns their number.
fn open_files() -> u64 {
    let mut held = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
    held.len().try_into().unwrap_or(u64::MAX)
}

/// Says how many pages of a file are not on its disk yet. The suite runs it on the host.
fn dirty(paths: &[String]) -> ExitCode {
    let found = paths.first().map(|path| outcome(sys::dirty_pages(path))).unwrap_or_default();
    if writeln!(std::io::stdout(), "{found}").is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Asks the kernel to write everything that waits to be written, by the call itself and not through a libc.
fn sync_everything() -> ExitCode {
    let called = sys::call(libc::SYS_sync, [0; 5]).map(|_| "called");
    if writeln!(std::io::stdout(), "{}", outcome(called)).is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Says its users and groups, real and effective.
fn who_am_i() -> ExitCode {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    let said = writeln!(
        std::io::stdout(),
        "{} {} {} {}",
        getuid().as_raw(),
        geteuid().as_raw(),
        getgid().as_raw(),
        getegid().as_raw()
    );
    if said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says where it is, and whether going up from there ends at the root.
fn where_am_i() -> ExitCode {
    use std::os::unix::fs::MetadataExt;
    let place = |path: &str| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let top = place(&"../".repeat(64)).and_then(|top| Ok(top == place("/")?));
    let here = std::env::current_dir().map(|path| path.display().to_string());
    let said = writeln!(
        std::io::stdout(),
        "{} {}",
        outcome(here),
        if matches!(top, Ok(true)) { "inside" } else { "outside" }
    );
    if said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lets two names change places all the time, until it is killed.
fn swap(names: &[String]) -> ExitCode {
    let [one, two] = names else { return ExitCode::from(2) };
    if writeln!(std::io::stdout(), "ready").is_err() {
        return ExitCode::FAILURE;
    }
    loop {
        if renameat_with(CWD, one, CWD, two, RenameFlags::EXCHANGE).is_err() {
            return ExitCode::FAILURE;
        }
    }
}
