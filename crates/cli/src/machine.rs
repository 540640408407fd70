//! Facts of this machine that a server needs: memory, the limit of open files, and signals that stop it.

use tokio::signal::unix::{Signal, SignalKind, signal};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Assumed memory of a machine that does not report it.
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

/// Raises the limit of open files as far as it goes, and returns it. A server holds a connection and some files for each client
/// and job, for which the usual soft limit of 1024 is too low.
pub(crate) fn raise_open_files() -> u64 {
    let now = getrlimit(Resource::Nofile);
    // Serving with fewer connections is better than not serving.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Host name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Signals that ask a server to stop.
pub(crate) struct StopSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

/// Starts to listen for the signals.
pub(crate) fn stop_signals() -> StopSignals {
    StopSignals {
        interrupt: signal(SignalKind::interrupt()).ok(),
        terminate: signal(SignalKind::terminate()).ok(),
    }
}

impl StopSignals {
    /// Returns when one of the signals arrived.
    pub(crate) async fn next(&mut self) {
        // Either signal ends the wait. Dropping the other `recv` loses nothing: a signal that arrives later
        // is seen by the next call.
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
