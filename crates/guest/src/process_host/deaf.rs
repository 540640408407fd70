//! Processes that a signal should have ended and did not.
//!
//! A shell that is interrupted while it forks has its handler in the child too: the child notes the signal, forgets it at the
//! exec, and its program runs on, while the shell waits for it.

use std::fs;

use rustix::process::{Pid, Signal, getpgid, kill_process};

/// Sends a signal to the members of a group that neither catch nor ignore it: had they got it, they would be gone.
pub(crate) fn signal_deaf(group: Pid, signal: Signal) {
    let Ok(entries) = fs::read_dir("/proc") else { return };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for pid in pids.filter_map(Pid::from_raw) {
        if getpgid(Some(pid)) == Ok(group) && is_deaf(pid, signal) {
            // Gone meanwhile is as good as signalled.
            let _ = kill_process(pid, signal);
        }
    }
}

fn is_deaf(pid: Pid, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    is_at_default(&status, signal.as_raw())
}

/// True if this text of `/proc/<pid>/status` says that the signal has its default effect.
fn is_at_default(status: &str, signal: i32) -> bool {
    let has = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(u64::from_str_radix(mask.trim(), 16).ok()? >> (signal - 1) & 1 == 1)
    };
    has("SigIgn:") == Some(false) && has("SigCgt:") == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_signal_with_its_default_effect_counts() {
        let status = |ignored: u64, caught: u64| {
            format!("Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n")
        };
        assert!(is_at_default(&status(0, 0), 2));
        assert!(is_at_default(&status(0b101, 0b101), 2));
        assert!(!is_at_default(&status(0b10, 0), 2));
        assert!(!is_at_default(&status(0, 0b10), 2));
        assert!(!is_at_default("", 2));
    }

    #[test]
    fn the_deaf_one_of_a_group_is_ended_and_the_one_with_a_handler_is_not() {
        use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", "trap : INT; sleep 60; echo $?; read line; echo on"]).process_group(0);
        shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let group = Pid::from_child(&child);
        let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
        let (told, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
            told.send(line).unwrap();
            std::io::Read::read_to_string(&mut reader, &mut String::new())
        });
        // Before its trap is set, the shell would be ended too.
        while is_deaf(group, Signal::INT) {
            std::thread::yield_now();
        }
        let ended = loop {
            signal_deaf(group, Signal::INT);
            if let Ok(line) = heard.recv_timeout(std::time::Duration::from_millis(10)) {
                break line;
            }
        };
        assert_eq!(ended, "130\n");
        drop(child.stdin.take());
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(0), None));
    }
}
