//! The kernel's thread that ticks for a machine, `kvm-pit/<pid>` (R22).
//!
//! KVM makes it when the machine boots, on behalf of its monitor but outside of all control groups, so what a guest has it do would
//! be charged to nobody. It bears the monitor's pid as the monitor itself sees it, which in a jail is always 1: machines of
//! one host can be told apart only by letting them boot one after the other.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use tokio::sync::{Mutex, MutexGuard};

use crate::parts::cgroup::Groups;

/// The thread of a monitor that is the first process of its pid namespace.
const NAME: &str = "kvm-pit/1";

/// Lets machines boot one at a time.
#[derive(Debug, Default)]
pub(super) struct Timers(Mutex<()>);

/// The time in which one machine boots.
pub(super) struct Boot<'a> {
    _turn: MutexGuard<'a, ()>,
    before: BTreeSet<i32>,
}

impl Timers {
    /// Waits for the turn of a machine and takes note of what is there before it boots.
    pub(super) async fn boot(&self) -> io::Result<Boot<'_>> {
        let turn = self.0.lock().await;
        Ok(Boot { _turn: turn, before: threads(Path::new("/proc"))? })
    }
}

impl Boot<'_> {
    /// Puts the thread that came with the machine into its groups.
    pub(super) fn booted(self, groups: &Groups) -> io::Result<()> {
        let now = threads(Path::new("/proc"))?;
        match now.difference(&self.before).collect::<Vec<_>>()[..] {
            [&thread] => groups.take_in(thread),
            // A kernel or processor that needs no such thread.
            [] => Ok(()),
            _ => {
                let name = groups.name();
                tracing::warn!(
                    groups = name,
                    "another program booted a machine: can't tell whose timer is whose"
                );
                Ok(())
            }
        }
    }
}

/// Every such thread.
fn threads(proc: &Path) -> io::Result<BTreeSet<i32>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended since.
        if fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name.trim_end() == NAME) {
            found.insert(pid);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_known_by_their_whole_name() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, name) in
            [("7", "kvm-pit/1\n"), ("8", "kvm-pit/17\n"), ("9", "bash\n"), ("self", "kvm-pit/1\n")]
        {
            fs::create_dir(proc.path().join(pid)).unwrap();
            fs::write(proc.path().join(pid).join("comm"), name).unwrap();
        }
        fs::create_dir(proc.path().join("10")).unwrap();
        assert_eq!(threads(proc.path()).unwrap(), BTreeSet::from([7]));
    }
}
