//! Limits the kernel's timer thread of a machine together with the machine (R22).
//!
//! In a jail every Firecracker is the first process of its pid namespace, so all their timers have the same name. Machines can be
//! told apart only by letting them boot one after the other.

use std::collections::BTreeSet;
use std::io;

use tokio::sync::{Mutex, MutexGuard};

use crate::host::cgroup::Groups;
use crate::host::vm::timer_threads;

/// Pid that a jailed Firecracker sees for itself.
const FIRST_PROCESS: i32 = 1;

/// Lets machines boot one at a time.
#[derive(Debug, Default)]
pub(super) struct Timers(Mutex<()>);

/// The time in which one machine boots.
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
            // A kernel or processor that needs no such thread.
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
