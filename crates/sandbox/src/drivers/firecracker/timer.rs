//! Limits the kernel's timer thread of a machine together with the machine (R22).
//!
//! In a jail every Firecracker is the first process of its pid namespace, so all timers have the same name.
//! The driver can tell them apart only by booting one machine after the other.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::sync::{Mutex, MutexGuard};

use crate::host::cgroup::Groups;
use crate::host::polling;
use crate::host::vm::timer_threads;

/// Pid that a jailed Firecracker sees for itself.
const FIRST_PROCESS: i32 = 1;
/// The lock of all yards of this host, in a folder where only root makes files, as only root runs jails.
const HOST_LOCK: &str = "/run/sandyard.firecracker-boot";
/// Longest wait for the boots of other yards, each of which takes a few milliseconds.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// Lets one machine of the host boot at a time, whichever yard it belongs to.
#[derive(Debug)]
pub(super) struct Timers {
    turns: Mutex<()>,
    lock: PathBuf,
}

/// The turn of one machine, held until it has booted.
pub(super) struct Boot<'a> {
    /// Released by the kernel if this process dies.
    _host: Option<File>,
    _turn: MutexGuard<'a, ()>,
    before: BTreeSet<i32>,
}

impl Default for Timers {
    fn default() -> Self {
        Self { turns: Mutex::default(), lock: HOST_LOCK.into() }
    }
}

impl Timers {
    /// Waits for the machine's turn and records the timer threads that exist before it boots.
    pub(super) async fn boot(&self) -> io::Result<Boot<'_>> {
        let turn = self.turns.lock().await;
        let host = match self.turn_on_host().await {
            Ok(lock) => Some(lock),
            // A boot beside another one costs at worst the limit of a thread, which `booted` notices.
            Err(error) => {
                tracing::warn!(%error, lock = %self.lock.display(), "another yard keeps booting machines");
                None
            }
        };
        Ok(Boot { _host: host, _turn: turn, before: timer_threads::of(FIRST_PROCESS)? })
    }

    async fn turn_on_host(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&self.lock)?;
        let taken = || match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        };
        polling::poll(TURN_TIMEOUT, taken).await?;
        Ok(file)
    }
}

impl Boot<'_> {
    /// Puts the thread that came with the machine into its groups.
    pub(super) fn booted(self, groups: &Groups) -> io::Result<()> {
        let now = timer_threads::of(FIRST_PROCESS)?;
        match now.difference(&self.before).collect::<Vec<_>>()[..] {
            [&thread] => groups.take_in(thread),
            // The kernel or the processor needs no such thread.
            [] => Ok(()),
            _ => {
                let name = groups.name();
                tracing::warn!(
                    groups = name,
                    "another program booted a machine at the same time; the timer thread was not found"
                );
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machines of two yards of one host.
    #[tokio::test]
    async fn yards_boot_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let yard = || Timers { turns: Mutex::default(), lock: folder.path().join("lock") };
        let (first, second) = (yard(), yard());
        let boot = first.boot().await.unwrap();
        let mut waiting = std::pin::pin!(second.boot());
        assert!(tokio::time::timeout(Duration::from_millis(20), waiting.as_mut()).await.is_err());
        drop(boot);
        assert!(waiting.await.unwrap()._host.is_some());
    }
}
