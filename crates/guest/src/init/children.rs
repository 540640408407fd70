//! Starts the other two roles: forks of init that exec its own program with only their descriptors.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use sandyard_protocol::{BootConfig, Secret, SpawnerSource};

use crate::boot::{BootFailure, BootStep as _, console, take_fd};
use crate::sys::{self, Forked, Namespaces};
use crate::{limits, packets};

/// The spawner's process, if init made it, and keeper's end of the socket to it.
pub(super) struct Spawner {
    pub(super) pid: Option<Pid>,
    pub(super) socket: OwnedFd,
}

/// A running keeper and init's end of the socket to it.
pub(super) struct Keeper {
    pub(super) pid: Pid,
    pub(super) socket: OwnedFd,
}

/// Opens the `cgroup.procs` files of the job's control groups. Returns none if the driver made the spawner.
pub(super) fn open_groups(spawner: &SpawnerSource) -> Result<Vec<OwnedFd>, BootFailure> {
    let SpawnerSource::Fork { cgroup_procs } = spawner else { return Ok(Vec::new()) };
    cgroup_procs.iter().map(|path| open_group(path).step("control groups", path.display())).collect()
}

/// Makes the spawner, in the job's control groups and namespaces of its own, or takes the one the driver made.
pub(super) fn start_spawner(
    config: &BootConfig,
    program: &OwnedFd,
    groups: &[OwnedFd],
) -> Result<Spawner, BootFailure> {
    const STAGE: &str = "start spawner";
    if let SpawnerSource::Given { socket } = config.spawner {
        return Ok(Spawner { pid: None, socket: take_fd("the spawner's socket", socket)? });
    }
    let (ours, theirs) = packets::pair().step(STAGE, "make a socket pair")?;
    // The job's processes begin as copies of the spawner: the link's secret must not be in its memory.
    let public = BootConfig { secret: Secret::new([0; 32]), ..config.clone() };
    let document = document(&public).step(STAGE, "write its boot document")?;
    match sys::fork_into(Namespaces::OwnPidsAndMounts).step(STAGE, "fork into namespaces")? {
        Forked::Parent(pid) => Ok(Spawner { pid: Some(pid), socket: ours }),
        Forked::Child => {
            let error = match enter_groups(groups) {
                Ok(()) => become_role("spawner", program, &[document.as_fd(), theirs.as_fd()]),
                Err(error) => error,
            };
            console(STAGE, error.raw_os_error(), &format!("enter control groups and exec: {error}"));
            sys::leave(1)
        }
    }
}

/// Starts a keeper as init's own user, with no right that init lacks. A restarted keeper gets the rights of the first one.
pub(super) fn start_keeper(
    config: &BootConfig,
    program: &OwnedFd,
    spawner: &OwnedFd,
) -> Result<Keeper, BootFailure> {
    const STAGE: &str = "start keeper";
    let (ours, theirs) = packets::pair().step(STAGE, "make a socket pair")?;
    let document = document(config).step(STAGE, "write its boot document")?;
    match sys::fork().step(STAGE, "fork")? {
        Forked::Parent(pid) => Ok(Keeper { pid, socket: ours }),
        Forked::Child => {
            let error = become_role("keeper", program, &[document.as_fd(), spawner.as_fd(), theirs.as_fd()]);
            console(STAGE, error.raw_os_error(), &format!("exec: {error}"));
            sys::leave(1)
        }
    }
}

fn document(config: &BootConfig) -> io::Result<OwnedFd> {
    let text = serde_json::to_vec(config)?;
    // The reader has the same bound. Checked here, the failure names its cause instead of a child that died.
    if text.len() > limits::BOOT_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the boot document is too long"));
    }
    packets::memory_file(&text)
}

fn open_group(procs: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(procs, OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// Moves this process into the job's control groups. The namespace comes after the move: its root is the group that the process
/// is in when it is made.
fn enter_groups(groups: &[OwnedFd]) -> io::Result<()> {
    for group in groups {
        // In `cgroup.procs`, 0 stands for the writing process.
        rustix::io::write(group, b"0")?;
    }
    if groups.is_empty() { Ok(()) } else { sys::own_control_groups() }
}

/// Execs the guest's program in another role, with `descriptors` from number 3 up. Returns only if the exec failed.
fn become_role(role: &str, program: &OwnedFd, descriptors: &[BorrowedFd<'_>]) -> io::Error {
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let all: Vec<_> =
        standard.into_iter().chain(descriptors.iter().copied()).chain([program.as_fd()]).collect();
    let program_number = all.len() - 1;
    let argv: Result<Vec<_>, _> = ["sandyard-guest", role].into_iter().map(CString::new).collect();
    let Ok(argv) = argv else { return io::ErrorKind::InvalidInput.into() };
    // An exec keeps blocked and ignored signals. Init blocks SIGCHLD, and keeper would inherit that.
    sys::default_signals();
    let arranged = sys::keep_only(&all)
        .and_then(|()| i32::try_from(program_number).map_err(io::Error::other))
        .and_then(sys::take);
    match arranged {
        Ok(program) => sys::exec_program(program.as_fd(), &argv, &[]),
        Err(error) => error,
    }
}
