//! The steps of a child of `LocalProcesses` between fork and exec.

#![expect(
    unsafe_code,
    reason = "code between fork and exec must be signal-safe, which the compiler can't check"
)]

use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Gives the command a session of its own and, with a terminal on its standard input, makes that its controlling one.
pub(crate) fn prepare_session(command: &mut Command, terminal: bool) {
    // SAFETY: the closure makes system calls only: no allocation, no locks.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            if terminal {
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            }
            Ok(())
        });
    }
}
