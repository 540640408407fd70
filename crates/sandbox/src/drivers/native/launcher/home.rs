//! The yard's own user and mount namespace, where an ordinary user's launcher is at home: making it and entering it.
//!
//! Holding: clone a process into both → tell the driver its pid → it waits until the driver has mapped its ids → it stays. The
//! process that was asked ends at once, so the holder is nobody's child.
//! Entering: setns, then execute this program again. Processes of a program executed outside would belong, for
//! /proc and setns, to a user namespace in which this user is nobody.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::event::Timespec;
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use super::super::sys::processes::{self, CloneParent, ForkSide};
use super::messages::HolderReport;
use crate::host::packets::{self, encode};
use crate::host::sandboxes::liveness::ProcessIdentity;

const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
/// Interval at which the holder reads the record to see whether it still names this process.
const RECORD_CHECK_INTERVAL: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// Enters the namespaces of the process behind the only descriptor and executes this program there. Returns only on failure.
pub(super) fn enter(fds: &[OwnedFd]) -> io::Error {
    let joined = match fds {
        [holder] => {
            let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
            move_into_thread_name_spaces(holder.as_fd(), both).map_err(io::Error::from)
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    };
    match joined.and_then(|()| own_command()) {
        Ok(mut command) => command.exec(),
        Err(error) => error,
    }
}

/// Returns a command that executes this program with its own arguments.
fn own_command() -> io::Result<Command> {
    let line = std::fs::read("/proc/self/cmdline")?;
    let mut words = line.split(|&byte| byte == 0).map(|word| std::ffi::OsString::from_vec(word.to_vec()));
    let mut command = Command::new("/proc/self/exe");
    command.arg0(words.next().unwrap_or_default()).env_clear();
    // The line ends with a NUL, after which there is no word.
    command.args(words.filter(|word| !word.is_empty()));
    Ok(command)
}

/// Leaves a holder behind, or reports why it can't.
pub(super) fn hold(driver: BorrowedFd<'_>, record: &Path) -> io::Result<()> {
    match processes::clone_into(NAMESPACES, CloneParent::Caller) {
        Err(error) => {
            say(driver, &HolderReport::Refused { errno: error.raw_os_error().unwrap_or(libc::EIO) })
        }
        Ok(ForkSide::Parent(pid)) => say(driver, &HolderReport::Made { pid }),
        Ok(ForkSide::Child) => {
            let stayed = begin(driver).and_then(|()| stay(record));
            processes::exit_now(i32::from(stayed.is_err()))
        }
    }
}

/// Waits until the driver has mapped the ids, then confirms it.
fn begin(driver: BorrowedFd<'_>) -> io::Result<()> {
    if packets::receive(driver)?.is_end() {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    rustix::process::setsid()?;
    say(driver, &HolderReport::Ready)
}

/// Sleeps for as long as the record names this process.
fn stay(record: &Path) -> io::Result<()> {
    // The identity has the start time as well, so a recycled pid in the record does not keep the holder
    // alive.
    let own = ProcessIdentity::of(std::process::id().cast_signed())?;
    // Closes the driver's socket too: the driver must see the end of the launcher it talks to.
    processes::close_from(0)?;
    loop {
        rustix::event::poll(&mut [], Some(&RECORD_CHECK_INTERVAL))?;
        let named = std::fs::read(record).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if named != Some(own.clone()) {
            return Ok(());
        }
    }
}

fn say(driver: BorrowedFd<'_>, held: &HolderReport) -> io::Result<()> {
    packets::send(driver, &encode(held)?, &[])
}
