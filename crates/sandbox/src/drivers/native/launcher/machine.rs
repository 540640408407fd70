//! The sandbox's half: the steps of its first process in its new namespaces, before it becomes the guest's `init`.
//!
//! It waits for its ids, becomes root of its user namespace, builds its tree, raises loopback, waits until the spawner
//! exists and executes the guest. It never returns: it is the guest, or it has reported why not and is gone.

use std::os::fd::{AsFd, OwnedFd};

use super::super::sys::processes;
use super::devices::MachineDevices;
use super::guest::{self, GuestFds, GuestReport};
use super::messages::LaunchPlan;
use super::root;
use super::step::{NativeFailure, NativeStep, NativeSteps};

/// Namespaces that the sandbox does not share with the host.
pub(super) const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
/// Descriptors that the host's half opened.
pub(super) struct Materials {
    /// The image, a detached mount.
    pub(super) tree: OwnedFd,
    /// The guest's programs, a detached mount.
    pub(super) programs: OwnedFd,
    pub(super) devices: MachineDevices,
    /// The disk, a detached mount.
    pub(super) disk: OwnedFd,
    /// The link directory, a detached mount.
    pub(super) link: OwnedFd,
    /// Descriptors of init, the machine's first process.
    pub(super) guest: GuestFds,
    /// Descriptors of the spawner.
    pub(super) spawner: GuestFds,
}

/// Becomes the guest, or reports why not and ends.
pub(super) fn run(plan: &LaunchPlan, materials: Materials, report: OwnedFd) -> ! {
    let told = GuestReport::new(report).and_then(|report| {
        let failure = match build(plan, &materials, &report) {
            Ok(()) => {
                // The next steps reuse descriptor numbers, so no other value may own one.
                let Materials { guest, spawner, tree, programs, devices, disk, link } = materials;
                drop((spawner, tree, programs, devices, disk, link));
                guest::execute(guest, c"init", plan.fail_at)
            }
            Err(failure) => failure,
        };
        report.fail(failure)
    });
    processes::exit_now(i32::from(told.is_err()))
}

/// Builds the machine up to the point where the spawner can be made, then waits for the spawner.
fn build(plan: &LaunchPlan, materials: &Materials, report: &GuestReport) -> Result<(), NativeFailure> {
    let mut steps = NativeSteps::new(plan.fail_at);
    // Not a step of its own: a failure on purpose here would end the process before its ids are written.
    let unreleased =
        |source| NativeFailure { step: NativeStep::Identity, object: "wait for ids".into(), source };
    report.wait().map_err(unreleased)?;
    steps.run(NativeStep::Identity, "session", rustix::process::setsid)?;
    // Root of the namespace comes before any mount: the kernel allows mounts only to its root.
    steps.run(NativeStep::Identity, "root", guest::become_root)?;
    build_tree(plan, materials, &mut steps)?;
    steps.run(NativeStep::Loopback, "lo", sandyard_sys::raise_loopback)?;
    let host_name = plan.host_name.as_bytes();
    steps.run(NativeStep::HostName, &plan.host_name, || rustix::system::sethostname(host_name))?;
    // The launcher's session keyring belongs to the host's user. A job could read its keys through it.
    steps.run(NativeStep::Keyring, "session", processes::leave_session_keyring)?;
    let lost = |source| NativeFailure { step: NativeStep::Execute, object: "report".into(), source };
    report.built(steps.into_phases()).map_err(lost)?;
    report.wait().map_err(lost)
}

fn build_tree(
    plan: &LaunchPlan,
    materials: &Materials,
    steps: &mut NativeSteps,
) -> Result<(), NativeFailure> {
    // Before any mount, or mounts of the sandbox would appear on the host.
    steps.run(NativeStep::PrivateMounts, "/", root::isolate_mounts)?;
    // Before the pivot: the kernel allows a new proc only while a fully visible one is mounted.
    let proc = steps.run(NativeStep::Proc, "/proc", root::new_proc)?;
    let own = steps.run(NativeStep::PrivateViews, plan.image_root.display(), || {
        root::private_views(materials.tree.as_fd(), materials.programs.as_fd())
    })?;
    let tree = own.root.as_fd();
    steps.run(NativeStep::Root, plan.image_root.display(), || root::enter(tree))?;
    steps.run(NativeStep::Proc, "/proc", || root::attach_at(tree, proc.as_fd(), "/proc"))?;
    steps.run(NativeStep::DeviceMounts, "/dev", || root::fill_dev(tree, &materials.devices))?;
    for mount in &plan.memory_mounts {
        steps.run(NativeStep::MemoryMounts, &mount.target, || root::mount_memory(tree, mount))?;
    }
    steps.run(NativeStep::DiskPlaces, plan.disk.path().display(), || {
        root::place_disk(tree, materials.disk.as_fd(), &plan.disk_mounts)
    })?;
    // After the file systems in memory: these targets lie in /run, which is one of them.
    steps.run(NativeStep::LinkMount, &plan.link_target, || {
        root::place(tree, materials.link.as_fd(), &plan.link_target)
    })?;
    steps.run(NativeStep::ProgramsMount, &plan.programs_target, || {
        root::place(tree, own.programs.as_fd(), &plan.programs_target)
    })
}
