//! The last step of each of the guest's first two processes: descriptors at their numbers, then execve.
//!
//! The waiting process holds the other end of a [`GuestReport`]. It either receives a failure, or sees the
//! socket end without one, which only execve does.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Gid, Uid};
use serde::{Deserialize, Serialize};

use super::super::sys::processes;
use super::step::{NativeFailure, NativeStep};
use crate::guest_programs::GUEST_PROGRAM;
use crate::host::layout::PROGRAMS_TARGET;
use crate::host::packets::{self, decode, encode};

/// Lowest number that a descriptor gets before it is placed at its final number.
const SAFE_NUMBERS: RawFd = 512;

/// Descriptors of a guest process beside /dev/null.
pub(super) struct GuestFds {
    pub(super) console: OwnedFd,
    /// The boot document, descriptor 3.
    pub(super) boot: OwnedFd,
    /// This process's end of the socket between spawner and keeper, descriptor 4.
    pub(super) socket: OwnedFd,
}

impl GuestFds {
    /// Takes the descriptors from a packet that `send_with` made.
    pub(super) fn from_packet(fds: Vec<OwnedFd>) -> io::Result<Self> {
        let [console, boot, socket] =
            <[OwnedFd; 3]>::try_from(fds).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self { console, boot, socket })
    }

    /// Sends the descriptors with a message.
    pub(super) fn send_with(&self, to: &OwnedFd, message: &impl Serialize) -> io::Result<()> {
        let fds = [&self.console, &self.boot, &self.socket].map(AsFd::as_fd);
        packets::send(to.as_fd(), &encode(message)?, &fds)
    }
}

/// Messages on a report's socket before execve closes it.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// The mounts of the machine are in place.
    Built(Vec<(NativeStep, u64)>),
    /// A step failed; the process ends.
    Failed { step: NativeStep, object: String, errno: i32 },
}

/// A message or the end of a report.
pub(super) enum GuestHeard {
    /// The machine is built, with the duration of each step. Its process waits for `go_on`.
    Built(Vec<(NativeStep, u64)>),
    /// The socket ended: the process has executed the guest, or was killed.
    End,
}

/// The sending end of a report, at a number that placing descriptors does not overwrite.
pub(super) struct GuestReport(OwnedFd);

impl GuestReport {
    /// Moves the socket out of the way.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        lift(&socket).map(Self)
    }

    pub(super) fn fail(&self, failure: NativeFailure) -> io::Result<()> {
        let errno = failure.source.raw_os_error().unwrap_or(libc::EIO);
        self.say(&Word::Failed { step: failure.step, object: failure.object, errno })
    }

    /// Reports that the machine is built.
    pub(super) fn built(&self, phases: Vec<(NativeStep, u64)>) -> io::Result<()> {
        self.say(&Word::Built(phases))
    }

    fn say(&self, word: &Word) -> io::Result<()> {
        packets::send(self.0.as_fd(), &encode(word)?, &[])
    }

    /// Blocks until the helper releases this process. The end of the socket is an error.
    pub(super) fn wait(&self) -> io::Result<()> {
        if packets::receive(self.0.as_fd())?.is_end() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }
}

/// Releases a process that waits in [`GuestReport::wait`].
pub(super) fn go_on(report: &OwnedFd) -> io::Result<()> {
    packets::send(report.as_fd(), b"go", &[])
}

/// Waits for the next message of the reporting process, or for the end of its socket.
pub(super) fn hear(report: &OwnedFd) -> Result<GuestHeard, NativeFailure> {
    let lost = |source| NativeFailure { step: NativeStep::Execute, object: "report".into(), source };
    let packet = packets::receive(report.as_fd()).map_err(lost)?;
    if packet.is_end() {
        return Ok(GuestHeard::End);
    }
    match decode(&packet.bytes).map_err(lost)? {
        Word::Built(phases) => Ok(GuestHeard::Built(phases)),
        Word::Failed { step, object, errno } => {
            Err(NativeFailure { step, object, source: io::Error::from_raw_os_error(errno) })
        }
    }
}

/// Becomes root of the user namespace this process is in, without supplementary groups.
pub(super) fn become_root() -> io::Result<()> {
    // Groups before user: after the change of user the kernel would refuse to change groups.
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    Ok(rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?)
}

/// Executes the guest in a role. Returns only on failure.
pub(super) fn execute(fds: GuestFds, role: &CStr, fail_at: Option<NativeStep>) -> NativeFailure {
    let failure = |step, object: &str, source| NativeFailure { step, object: object.to_owned(), source };
    let on_purpose = || io::Error::from_raw_os_error(libc::EIO);
    if fail_at == Some(NativeStep::Descriptors) {
        return failure(NativeStep::Descriptors, "fail-point", on_purpose());
    }
    let program = match arrange(fds) {
        Ok(program) => program,
        Err(error) => return failure(NativeStep::Descriptors, "standard and boot", error),
    };
    // Ignored signals survive execve. The launcher ignores SIGCHLD, with which the guest could not wait for
    // its children.
    processes::reset_signals();
    if fail_at == Some(NativeStep::Execute) {
        return failure(NativeStep::Execute, "fail-point", on_purpose());
    }
    failure(NativeStep::Execute, "guest", processes::execute(program.as_fd(), c"sandyard-guest", role))
}

/// Puts the guest's descriptors at the numbers it expects and marks all others to be closed by exec.
fn arrange(fds: GuestFds) -> io::Result<OwnedFd> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let program = rustix::fs::open(program_path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let placed = [&null, &null, &fds.console, &fds.boot, &fds.socket];
    let lifted = placed.into_iter().map(lift).collect::<io::Result<Vec<_>>>()?;
    let program = lift(&program)?;
    // Close the originals before their numbers are reused; a later drop would close the placed descriptor.
    drop((null, fds));
    let mut number = 0;
    for fd in &lifted {
        processes::place(fd.as_fd(), number)?;
        number += 1;
    }
    // Descriptors that the launcher inherited must not reach the guest. The report socket closes here as
    // well, on execve.
    processes::close_on_exec_from(number.cast_unsigned())?;
    Ok(program)
}

/// Path of the guest's program inside the machine.
fn program_path() -> String {
    format!("{PROGRAMS_TARGET}/{GUEST_PROGRAM}")
}

fn lift(fd: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, SAFE_NUMBERS)?)
}
