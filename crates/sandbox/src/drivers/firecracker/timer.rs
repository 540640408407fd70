//! Limits the kernel's timer thread of a machine together with the machine (R22).
//!
//! In a jail every Firecracker is the first process of its pid namespace, so all timers have the same name.
//! The driver can tell them apart only by booting one machine after the other.

use std::collections::BTreeSet;
use std::io;

use tokio::sync::{Mutex, MutexGuard};

use crate::host::cgroup::Groups;
use crate::host::vm::timer_threads;

/// Pid that a jailed Firecracker sees for itself.
const FIRST_PROCESS: i32 = 1;

/// Lets one machine boot at a time.
#[derive(Debug, Default)]
pub(super) struct Timers(Mutex<()>);

/// The turn of one machine, held until it has booted.
pub(super) struct Boot<'a> {
    _turn: MutexGuard<'a, ()>,
    before: BTreeSet<i32>,
}

impl Timers {
    /// Waits for the machine's turn and records the timer threads that exist before it boots.
    pub(super) async fn boot(&self) -> io::Result<Boot<'_>> {
        let turn = self.0.lock().await;
        Ok(Boot { _turn: turn, before: timer_threads::of(FIRST_PROCESS)? })
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
