//! The launcher: a single-threaded process that makes sandboxes for a multi-threaded driver.
//!
//! The driver executes it with a socket as standard input and sends it errands. For most it forks a helper, which parks
//! in the control groups of one sandbox and later makes that sandbox; then the helper is gone. Sandboxes are
//! the launcher's children until it ends, which it does when the driver's end of the socket closes, and go on without it.
//! For an ordinary user it first enters the yard's namespaces, which another launcher process made and holds
//! (`home`).
//! Nothing here is async and nothing holds state: killing the launcher loses only starts that had not begun.

mod companion;
mod devices;
mod groups;
mod guest;
mod helper;
mod home;
mod machine;
mod memory_disk;
pub(super) mod messages;
mod root;
pub(super) mod step;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;

use rustix::fs::{Mode, OFlags};

use super::sys::processes::{self, ForkSide};
use crate::host::packets::{self, decode};
use messages::LauncherErrand;

pub(super) use memory_disk::MARKER as LOST_WORKSPACE_MARKER;

/// The hidden command by which the program that holds the driver becomes a launcher.
pub const LAUNCHER_COMMAND: &str = "native-launcher";

/// Serves as the launcher on standard input. Call it first thing in `main`, before any thread exists, when the first
/// argument is [`LAUNCHER_COMMAND`].
pub fn launcher_main() -> ExitCode {
    match prepare().and_then(|()| serve(io::stdin().as_fd())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "launcher ends");
            ExitCode::FAILURE
        }
    }
}

/// Lets go of everything inherited but the socket, so that nothing of the driver's can reach a sandbox.
fn prepare() -> io::Result<()> {
    processes::close_from(3)?;
    // setsid fails only for the leader of a process group, which has no terminal to lose.
    let _ = rustix::process::setsid();
    rustix::process::chdir("/")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // Sandboxes are children of the launcher, which waits for none of them. Without this each would stay a
    // zombie.
    processes::reap_children_automatically();
    Ok(())
}

fn serve(orders: BorrowedFd<'_>) -> io::Result<()> {
    loop {
        let packet = packets::receive(orders)?;
        if packet.is_end() {
            return Ok(());
        }
        match decode(&packet.bytes)? {
            LauncherErrand::Helper => {
                for socket in packet.fds {
                    if let ForkSide::Child = processes::fork()? {
                        let code = leave_orders().map_or(1, |()| helper::serve(&socket));
                        processes::exit_now(code);
                    }
                }
            }
            // Never returns on success: the launcher is executed again inside and reads the next errand from
            // the same socket.
            LauncherErrand::Enter => return Err(home::enter(&packet.fds)),
            LauncherErrand::Hold { record } => return home::hold(orders, &record),
        }
    }
}

/// Lets go of the launcher's socket: held by a waiting helper it would take orders that a dead launcher never reads.
fn leave_orders() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    processes::place(null.as_fd(), 0)
}
