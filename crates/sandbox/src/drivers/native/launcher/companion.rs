//! The helper's companion: waits in the job's control groups and makes the spawner there.
//!
//! Moving a process into version 1 groups costs more than all the rest, so the spawner is not moved: it descends from a process that
//! has been in them all along. That one joins the finished machine's namespaces and forks twice, so that the
//! spawner is PID 1 of an inner pid namespace, a child of the machine's first process, and never anywhere else.
//!
//! helper → companion: `CompanionRequest` with the spawner's [`GuestFds`]. companion → helper: `CompanionReport::Made` once the
//! spawner has its namespaces, `CompanionReport::Runs` once it has executed the guest, or `CompanionReport::Failed`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use serde::{Deserialize, Serialize};

use super::super::sys::processes::{self, CloneParent, ForkSide};
use super::groups::enter_groups;
use super::guest::{self, GuestFds};
use super::step::{NativeFailure, NativeStep, NativeSteps};
use crate::host::packets::{self, decode, encode};

/// Namespaces that the spawner shares with the machine's first process.
const JOINED: ThreadNameSpaceType = ThreadNameSpaceType::USER
    .union(ThreadNameSpaceType::MOUNT)
    .union(ThreadNameSpaceType::PROCESS_ID)
    .union(ThreadNameSpaceType::NETWORK)
    .union(ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION)
    .union(ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME);
/// Namespaces that only the spawner has. The control group namespace is rooted in the job's groups, where this process sits.
const OWN: libc::c_int = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CompanionRequest {
    pub(super) machine: i32,
    pub(super) fail_at: Option<NativeStep>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum CompanionReport {
    /// The companion is in its groups.
    Waiting,
    /// The spawner's process exists.
    Made,
    /// The spawner executes the guest.
    Runs,
    /// The spawner does not run.
    Failed {
        /// Step that failed.
        step: NativeStep,
        /// Object of the step.
        object: String,
        /// The system's error number.
        errno: i32,
    },
}

impl From<NativeFailure> for CompanionReport {
    fn from(failure: NativeFailure) -> Self {
        Self::Failed { errno: failure.errno(), step: failure.step, object: failure.object }
    }
}

/// Forks the companion of this process, which enters `groups`. The companion never returns.
pub(super) fn start(groups: &[std::path::PathBuf]) -> Result<OwnedFd, NativeFailure> {
    let mut steps = NativeSteps::new(None);
    let (ours, theirs) = steps.run(NativeStep::Spawner, "socket", packets::pair)?;
    match steps.run(NativeStep::Spawner, "companion", processes::fork)? {
        ForkSide::Parent(_) => Ok(ours),
        ForkSide::Child => {
            // A copy of the helper's end kept here would hide the helper's death from this process.
            drop(ours);
            let told =
                enter_groups(groups, None).map_or_else(CompanionReport::from, |()| CompanionReport::Waiting);
            let served = tell(&theirs, &told).and_then(|()| serve(&theirs));
            processes::exit_now(i32::from(served.is_err()))
        }
    }
}

/// Waits for the companion's next message.
pub(super) fn hear(companion: &OwnedFd) -> io::Result<CompanionReport> {
    let packet = packets::receive(companion.as_fd())?;
    if packet.is_end() {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    decode(&packet.bytes)
}

fn tell(helper: &OwnedFd, told: &CompanionReport) -> io::Result<()> {
    packets::send(helper.as_fd(), &encode(told)?, &[])
}

/// Serves one request, or none if the helper goes away first.
fn serve(helper: &OwnedFd) -> io::Result<()> {
    let packet = packets::receive(helper.as_fd())?;
    if packet.is_end() {
        return Ok(());
    }
    let making: CompanionRequest = decode(&packet.bytes)?;
    let told = GuestFds::from_packet(packet.fds)
        .map_err(|source| NativeFailure { step: NativeStep::Spawner, object: "descriptors".into(), source })
        .and_then(|fds| make(&making, fds, helper))
        .map_or_else(CompanionReport::from, |()| CompanionReport::Runs);
    tell(helper, &told)
}

fn make(making: &CompanionRequest, fds: GuestFds, helper: &OwnedFd) -> Result<(), NativeFailure> {
    let mut steps = NativeSteps::new(making.fail_at);
    steps.run(NativeStep::Spawner, "join the machine's namespaces", || join(making.machine))?;
    let (ours, theirs) = steps.run(NativeStep::Spawner, "report socket", packets::pair)?;
    // The process that forks next is in the machine's pid namespace; when it ends, its child becomes the machine's.
    // The fork is needed because setns into a pid namespace moves only later children.
    if let ForkSide::Child = steps.run(NativeStep::Spawner, "enter the machine", processes::fork)? {
        drop(ours);
        enter(making, fds, helper, theirs);
    }
    // Kept open here, the socket would not end when the spawner executes the guest.
    drop(theirs);
    guest::hear(&ours).map(drop)
}

/// Becomes root of the machine's user namespace, within all its namespaces. Its pid namespace counts for children only.
fn join(machine: i32) -> io::Result<()> {
    let machine = Pid::from_raw(machine).ok_or(io::ErrorKind::InvalidInput)?;
    // With a pidfd one call joins all namespaces, and all of them belong to the same process.
    let machine = pidfd_open(machine, PidfdFlags::empty())?;
    // The namespaces come first: only inside the machine's user namespace is this process allowed to become
    // its root.
    move_into_thread_name_spaces(machine.as_fd(), JOINED)?;
    guest::become_root()
}

/// Clones the spawner and ends; in the clone, becomes the spawner.
fn enter(making: &CompanionRequest, fds: GuestFds, helper: &OwnedFd, report: OwnedFd) -> ! {
    let cloned = processes::clone_into(OWN, CloneParent::Caller).map_err(|source| NativeFailure {
        step: NativeStep::Spawner,
        object: "namespaces".into(),
        source,
    });
    match cloned {
        Ok(ForkSide::Parent(_)) => {
            processes::exit_now(i32::from(tell(helper, &CompanionReport::Made).is_err()))
        }
        Ok(ForkSide::Child) => {
            let report = guest::GuestReport::new(report);
            let execute = report.and_then(|report| {
                let failure = rustix::process::setsid()
                    .map_err(|error| NativeFailure {
                        step: NativeStep::Spawner,
                        object: "session".into(),
                        source: error.into(),
                    })
                    .err()
                    .unwrap_or_else(|| guest::execute(fds, c"spawner", making.fail_at));
                // Reached only if execve failed; a spawner that runs never returns.
                report.fail(failure)
            });
            processes::exit_now(i32::from(execute.is_err()))
        }
        Err(failure) => {
            let told = guest::GuestReport::new(report).and_then(|report| report.fail(failure));
            processes::exit_now(i32::from(told.is_err()))
        }
    }
}
