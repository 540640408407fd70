//! The sandbox's half: what its first process does in its new namespaces before it becomes the guest's `init`.
//!
//! It waits for its ids, becomes root of its user namespace, builds its tree, raises loopback, places descriptors and
//! executes the guest. It never returns: it is the guest, or it has reported why not and is gone.

use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Gid, Uid};
use sandyard_protocol::BOOT_FD;
use serde::{Deserialize, Serialize};

use super::super::sys::{network, processes};
use super::devices::Device;
use super::messages::{LaunchPlan, encode};
use super::step::{Failure, Step, Steps};
use super::{channel, root};

/// Everything is the sandbox's own.
pub(super) const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
/// Descriptors are moved above this number before they are placed below it.
const SAFE_NUMBERS: RawFd = 512;

/// What the host's half opened for it.
pub(super) struct Materials {
    /// The image, a detached mount.
    pub(super) tree: OwnedFd,
    /// Device nodes.
    pub(super) devices: Vec<Device>,
    /// The disk, a detached mount.
    pub(super) disk: OwnedFd,
    /// The link directory, a detached mount.
    pub(super) link: OwnedFd,
    /// The guest's program.
    pub(super) program: OwnedFd,
    /// Its configuration.
    pub(super) boot: OwnedFd,
    /// Its standard error.
    pub(super) console: OwnedFd,
    /// `cgroup.procs` of the job's groups, placed after the configuration.
    pub(super) job_procs: Vec<OwnedFd>,
    /// This process's end of the report socket; the host's half drops its copy.
    pub(super) report: Option<OwnedFd>,
}

/// What the new process tells the host's half.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// Everything is in place; what follows is execve.
    Built(Vec<(Step, u64)>),
    /// A step failed.
    Failed {
        /// Which.
        step: Step,
        /// On what.
        object: String,
        /// The system's error number.
        errno: i32,
    },
}

/// Becomes the guest, or reports why not and ends.
pub(super) fn run(plan: &LaunchPlan, mut materials: Materials) -> ! {
    // Lifted first: placing the guest's descriptors overwrites low numbers, and failures are reported after that too.
    let Some(Ok(report)) = materials.report.take().map(|fd| lift(&fd)) else { processes::exit_now(1) };
    let failure = match build(plan, &materials, &report) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    let errno = failure.source.raw_os_error().unwrap_or(libc::EIO);
    let message = Report::Failed { step: failure.step, object: failure.object, errno };
    if let Ok(bytes) = encode(&message) {
        // The host's half sees the end of the socket if this fails, and knows enough.
        let _ = channel::send(report.as_fd(), &bytes, &[]);
    }
    processes::exit_now(1)
}

fn build(
    plan: &LaunchPlan,
    materials: &Materials,
    report: &OwnedFd,
) -> Result<std::convert::Infallible, Failure> {
    let mut steps = Steps::new(plan.fail_at);
    steps.run(Step::Identity, "wait", || wait(report))?;
    steps.run(Step::Identity, "root", become_root)?;
    build_tree(plan, materials, &mut steps)?;
    steps.run(Step::Loopback, "lo", network::raise_loopback)?;
    steps.run(Step::HostName, &plan.host_name, || {
        rustix::system::sethostname(plan.host_name.as_bytes())
    })?;
    steps.run(Step::Keyring, "session", processes::leave_session_keyring)?;
    execute(plan, materials, report, steps)
}

/// Blocks until the id maps are written; the host's half dying ends this process too.
fn wait(report: &OwnedFd) -> io::Result<()> {
    if channel::receive(report.as_fd())?.is_end() {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

fn become_root() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    Ok(rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?)
}

fn build_tree(plan: &LaunchPlan, materials: &Materials, steps: &mut Steps) -> Result<(), Failure> {
    let tree = materials.tree.as_fd();
    steps.run(Step::PrivateMounts, "/", root::isolate_mounts)?;
    let proc = steps.run(Step::Proc, "/proc", root::new_proc)?;
    steps.run(Step::Root, plan.image_root.display(), || root::enter(tree))?;
    steps.run(Step::Proc, "/proc", || root::attach_at(tree, proc.as_fd(), "/proc"))?;
    steps.run(Step::DeviceMounts, "/dev", || root::fill_dev(tree, &materials.devices))?;
    for mount in &plan.memory_mounts {
        steps.run(Step::MemoryMounts, &mount.target, || root::mount_memory(tree, mount))?;
    }
    steps.run(Step::DiskPlaces, plan.disk.display(), || {
        root::place_disk(tree, materials.disk.as_fd(), &plan.disk_mounts)
    })?;
    steps.run(Step::LinkMount, &plan.link_target, || {
        root::place_link(tree, materials.link.as_fd(), &plan.link_target)
    })
}

fn execute(
    plan: &LaunchPlan,
    materials: &Materials,
    report: &OwnedFd,
    mut steps: Steps,
) -> Result<std::convert::Infallible, Failure> {
    let program = steps.run(Step::Descriptors, "program", || lift(&materials.program))?;
    steps.run(Step::Descriptors, "standard and boot", || place_all(materials))?;
    processes::reset_signals();
    if plan.fail_at == Some(Step::Execute) {
        return Err(Failure { step: Step::Execute, object: "guest".into(), source: io::Error::from_raw_os_error(libc::EIO) });
    }
    let phases = steps.into_phases();
    let execute = |source| Failure { step: Step::Execute, object: "guest".into(), source };
    let bytes = encode(&Report::Built(phases)).map_err(execute)?;
    channel::send(report.as_fd(), &bytes, &[]).map_err(execute)?;
    Err(execute(processes::execute(program.as_fd(), c"sandyard-guest", c"init")))
}

fn lift(fd: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, SAFE_NUMBERS)?)
}

/// Puts the guest's descriptors at the numbers it expects and marks all others to be closed by exec.
fn place_all(materials: &Materials) -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut lifted = vec![lift(&null)?, lift(&null)?, lift(&materials.console)?, lift(&materials.boot)?];
    // Closed before its number is given away.
    drop(null);
    debug_assert_eq!(lifted.len(), usize::try_from(BOOT_FD).unwrap_or_default() + 1);
    for procs in &materials.job_procs {
        lifted.push(lift(procs)?);
    }
    let mut next = 0;
    for fd in &lifted {
        processes::place(fd.as_fd(), next)?;
        next += 1;
    }
    processes::close_on_exec_from(next.cast_unsigned())
}
