//! What main asks of the machine it runs on: memory, open files, signals that end a server.

use tokio::signal::unix::{Signal, SignalKind, signal};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Taken for the memory of a machine that won't say.
const UNKNOWN_MEMORY_MIB: u64 = 2048;

/// Memory of the machine.
pub(crate) fn memory_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    read_memory_mib(&text).unwrap_or(UNKNOWN_MEMORY_MIB)
}

fn read_memory_mib(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}

/// A server holds a connection and some files for each client and job; the usual soft limit of 1024 is for other programs.
pub(crate) fn raise_open_files() {
    let now = getrlimit(Resource::Nofile);
    // Serving with fewer connections is better than not serving.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
}

/// The name others may know this machine by.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Signals that ask a server to stop.
pub(crate) struct StopSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

/// Listens for them from now on.
pub(crate) fn stop_signals() -> StopSignals {
    StopSignals {
        interrupt: signal(SignalKind::interrupt()).ok(),
        terminate: signal(SignalKind::terminate()).ok(),
    }
}

impl StopSignals {
    /// Returns when one has come.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            () = receive(&mut self.interrupt) => {}
            () = receive(&mut self.terminate) => {}
        }
    }
}

async fn receive(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_mebibytes() {
        assert_eq!(read_memory_mib("MemTotal:       2097152 kB\nMemFree: 1 kB\n"), Some(2048));
        assert_eq!(read_memory_mib("nothing"), None);
    }
}
