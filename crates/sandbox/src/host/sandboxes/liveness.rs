//! Checks whether a process is still the one recorded: by pid, start time and boot, never by pid alone.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;

use crate::host::sys::readiness;

/// Identifies a process across restarts of the driver and reuse of pids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    /// Pid on the host.
    pub(crate) pid: i32,
    /// Clock ticks from boot to the start of the process.
    start_ticks: u64,
    /// The kernel's id of this boot.
    boot_id: String,
}

impl ProcessIdentity {
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        let status = read_stat(pid)?;
        Ok(Self { pid, start_ticks: status.start_ticks, boot_id: boot_id()? })
    }

    /// Reports whether that very process still runs. A zombie does not.
    pub(crate) fn is_alive(&self) -> bool {
        let same_boot = boot_id().is_ok_and(|boot_id| boot_id == self.boot_id);
        let same_process =
            |stat: Stat| stat.start_ticks == self.start_ticks && !matches!(stat.state, 'Z' | 'X');
        same_boot && read_stat(self.pid).is_ok_and(same_process)
    }

    /// Returns a descriptor of the process, if it runs.
    pub(crate) fn open(&self) -> Option<OwnedFd> {
        let fd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Check after opening: from then on the descriptor can't refer to another process.
        self.is_alive().then_some(fd)
    }

    /// Kills the process, if it runs.
    pub(crate) fn kill(&self) {
        if let Some(fd) = self.open() {
            // The process may have ended since.
            let _ = pidfd_send_signal(fd, Signal::KILL);
        }
    }

    /// Returns when the process is dead.
    pub(crate) async fn wait_dead(&self) {
        let Some(fd) = self.open() else { return };
        match readiness::watch(fd, Interest::READABLE) {
            Ok(fd) => {
                // After an error of the reactor nothing better can be awaited; callers check liveness again.
                let _ = fd.readable().await;
            }
            Err(error) => tracing::warn!(%error, pid = self.pid, "can't watch a process"),
        }
    }
}

struct Stat {
    state: char,
    start_ticks: u64,
}

fn read_stat(pid: i32) -> io::Result<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse_stat(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses fields 3 and 22 of proc_pid_stat(5). The name in field 2 may hold anything, so fields are counted
/// from its end.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_ticks })
}

fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 2";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.state, stat.start_ticks), ('S', 4242));
    }

    #[test]
    fn the_same_pid_with_another_start_or_boot_is_another_process() {
        let own = ProcessIdentity::of(std::process::id().cast_signed()).unwrap();
        assert!(own.is_alive());
        assert!(!ProcessIdentity { start_ticks: own.start_ticks + 1, ..own.clone() }.is_alive());
        assert!(!ProcessIdentity { boot_id: "another".into(), ..own }.is_alive());
    }
}
