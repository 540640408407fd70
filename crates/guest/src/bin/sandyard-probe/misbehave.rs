//! Small programs that misbehave in one way each.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::sys;

/// Runs one by name.
pub(crate) fn run(name: &str, argument: Option<&str>) -> ExitCode {
    let number = argument.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let said = match name {
        "eat-memory" => eat_memory(),
        "burn" => burn(Duration::from_millis(number)),
        "open-files" => open_files(),
        "fork-many" => sys::fork_many(number),
        "machine" => flood_console(),
        "hide" => return sys::hide_from_signals(),
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

/// Computes for so long; says nothing of use.
fn burn(time: Duration) -> u64 {
    let end = Instant::now() + time;
    let mut turns = 0_u64;
    while Instant::now() < end {
        turns = std::hint::black_box(turns + 1);
    }
    turns
}

/// As the first process of a machine (by the name that a driver gives it), says more on its console than anybody wants to keep.
fn flood_console() -> u64 {
    let line = [b"flood ".repeat(170), b"\n".to_vec()].concat();
    loop {
        // A console that takes no more is the host's affair.
        let _ = std::io::stdout().write_all(&line);
    }
}

/// Opens files until refused; tells how many.
fn open_files() -> u64 {
    let mut held = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
    held.len().try_into().unwrap_or(u64::MAX)
}
