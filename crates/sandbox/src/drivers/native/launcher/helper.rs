//! The host's half of making one sandbox: the work that needs the rights of the host's root, or of the
//! yard's, before and beside the new namespaces.
//!
//! Collect detached mounts → clone the process → write its id maps → map the mounts through its user
//! namespace → let it build itself (`machine`) → have the companion make the spawner → wait until both have
//! executed the guest or reported a failure.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::Timespec;
use rustix::fs::CWD;
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

use super::super::sys::processes::{self, CloneParent, ForkSide};
use super::companion::{self, CompanionReport, CompanionRequest};
use super::groups::enter_groups;
use super::guest::{self, GuestFds, GuestHeard};
use super::machine::{self, Materials};
use super::messages::{DiskPlan, FileOwners, HelperAnswer, HelperOrder, LaunchFds, LaunchPlan, ParkPlan};
use super::step::{NativeFailure, NativeStep, NativeSteps};
use super::{devices, memory_disk};
use crate::host::packets::{self, decode, encode};
use crate::host::sandboxes::ids;
use crate::host::storage::image_disk;
use crate::host::sys::mounts;

/// Attempts to remove a companion's groups before they are left to a later sweep.
const ABANDON_ATTEMPTS: usize = 250;
/// Delay between two attempts.
const ABANDON_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Serves one socket to its end; returns the exit code.
pub(super) fn serve(socket: &OwnedFd) -> i32 {
    match attend(socket) {
        Ok(()) => 0,
        // The driver is gone or broke the protocol; nobody would read an answer.
        Err(_) => 1,
    }
}

fn attend(socket: &OwnedFd) -> io::Result<()> {
    let packet = packets::receive(socket.as_fd())?;
    let HelperOrder::Park(groups) = decode(&packet.bytes)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let parked = match park(&groups) {
        Ok(parked) => parked,
        Err(failure) => return reply(socket, &failure.into()),
    };
    reply(socket, &HelperAnswer::Parked)?;
    let packet = packets::receive(socket.as_fd())?;
    // The driver died or dropped the slot. Dropping ends the companion, whose group can't be removed before
    // that.
    if packet.is_end() {
        drop(parked);
        abandon(&groups);
        return Ok(());
    }
    let HelperOrder::Launch(plan) = decode(&packet.bytes)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    finish(socket, launch(&plan, parked, packet.fds))
}

/// Resources of a waiting helper.
struct ParkedHelper {
    /// The companion, waiting in the job's groups.
    companion: OwnedFd,
    /// The blank disk, mounted ahead; `None` if workspaces are not on disk.
    disk: Option<OwnedFd>,
}

/// Enters the groups, with a companion in the job's, and mounts the blank disk.
fn park(groups: &ParkPlan) -> Result<ParkedHelper, NativeFailure> {
    // Forked first, so that the companion enters its groups while this process enters its own.
    let companion = companion::start(&groups.job)?;
    enter_groups(&groups.own, groups.fail_at)?;
    let lost =
        |source| NativeFailure { step: NativeStep::EnterControlGroups, object: "companion".into(), source };
    match companion::hear(&companion).map_err(lost)? {
        CompanionReport::Waiting => {}
        told => return Err(unexpected(told)),
    }
    let mut steps = NativeSteps::new(groups.fail_at);
    let mount = |path: &PathBuf| steps.run(NativeStep::DiskMount, path.display(), || image_disk::mount(path));
    let disk = groups.disk.as_ref().map(mount).transpose()?;
    Ok(ParkedHelper { companion, disk })
}

/// Removes the prepared groups and disk of a driver that is gone. A sweep of the next driver removes the
/// rest.
fn abandon(groups: &ParkPlan) {
    if let Some(disk) = &groups.disk {
        let _ = std::fs::remove_file(disk);
    }
    for (entrance, refuge) in groups.job.iter().zip(&groups.refuges) {
        let parents: Vec<&Path> = entrance.ancestors().skip(1).take(3).collect();
        let [job, slot, yard] = parents.as_slice() else { continue };
        // This process sits in the slot's own group, which can't be removed while it does.
        let _ = std::fs::write(refuge, "0");
        for _ in 0..ABANDON_ATTEMPTS {
            // The companion is on its way out.
            match std::fs::remove_dir(job) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    let _ = rustix::event::poll(&mut [], Some(&ABANDON_DELAY));
                }
                _ => break,
            }
        }
        // From the inside out: a group with a child can't be removed. The yard's directory goes only if it is
        // empty.
        for directory in [&slot.join("own"), *slot, *yard] {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// Reports to the driver. If that fails, the sandbox is killed, because nobody would own it.
fn finish(
    socket: &OwnedFd,
    launched: Result<(i32, Vec<(NativeStep, u64)>), NativeFailure>,
) -> io::Result<()> {
    let (pid, phases) = match launched {
        Ok(launched) => launched,
        Err(failure) => return reply(socket, &failure.into()),
    };
    reply(socket, &HelperAnswer::Launched { pid, phases }).inspect_err(|_| processes::kill_child(pid))
}

fn reply(socket: &OwnedFd, answer: &HelperAnswer) -> io::Result<()> {
    packets::send(socket.as_fd(), &encode(answer)?, &[])
}

fn launch(
    plan: &LaunchPlan,
    parked: ParkedHelper,
    fds: Vec<OwnedFd>,
) -> Result<(i32, Vec<(NativeStep, u64)>), NativeFailure> {
    let mut steps = NativeSteps::new(plan.fail_at);
    // The companion's socket closes when this function returns; a companion that was not used then ends.
    let ParkedHelper { companion, disk } = parked;
    let materials = collect(plan, disk, fds, &mut steps)?;
    let (ours, theirs) = steps.run(NativeStep::Namespaces, "report socket", packets::pair)?;
    let side = steps.run(NativeStep::Namespaces, &plan.host_name, || match plan.owners {
        FileOwners::Mapped => {
            processes::clone_into_of(ids::owner(&plan.id_map), machine::NAMESPACES, CloneParent::Grandparent)
        }
        FileOwners::AsTheyAre => processes::clone_into(machine::NAMESPACES, CloneParent::Grandparent),
    })?;
    let ForkSide::Parent(pid) = side else {
        // The new process never returns from `machine::run`, so it drops no value of this function.
        drop(ours);
        machine::run(plan, materials, theirs)
    };
    // With this copy open, the death of the new process would never show as the end of `ours`.
    drop(theirs);
    match attend_machine(plan, pid, &materials, &ours, &companion, &mut steps) {
        Ok(mut inside) => {
            let mut phases = steps.into_phases();
            phases.append(&mut inside);
            Ok((pid, phases))
        }
        Err(failure) => {
            // A half-built machine must not outlive its failed start.
            processes::kill_child(pid);
            Err(failure)
        }
    }
}

/// Opens everything the new processes will need, while this one still has the host's rights and paths.
fn collect(
    plan: &LaunchPlan,
    parked_disk: Option<OwnedFd>,
    fds: Vec<OwnedFd>,
    steps: &mut NativeSteps,
) -> Result<Materials, NativeFailure> {
    let (guest, spawner) = steps.run(NativeStep::Descriptors, "from the driver", || guest_fds(fds))?;
    let tree =
        steps.run(NativeStep::ImageTree, plan.image_root.display(), || clone_tree(&plan.image_root))?;
    let programs =
        steps.run(NativeStep::ImageTree, plan.programs.display(), || clone_tree(&plan.programs))?;
    let owner = ids::owner(&plan.id_map);
    let devices = steps.run(NativeStep::Devices, "/dev", || devices::collect(owner))?;
    let disk =
        steps.run(NativeStep::DiskMount, plan.disk.path().display(), || match (&plan.disk, parked_disk) {
            (DiskPlan::Image { parked: true, .. }, Some(disk)) => Ok(disk),
            (DiskPlan::Image { path, .. }, _) => image_disk::mount(path),
            (DiskPlan::Memory(disk), _) => memory_disk::open(disk),
        })?;
    let link = steps
        .run(NativeStep::LinkMount, plan.link_directory.display(), || clone_link(&plan.link_directory))?;
    Ok(Materials { tree, programs, devices, disk, link, guest, spawner })
}

/// Sorts the driver's descriptors for init and spawner, with a new socket between the two.
fn guest_fds(fds: Vec<OwnedFd>) -> io::Result<(GuestFds, GuestFds)> {
    let LaunchFds { console, boot, spawner_boot } = LaunchFds::from_packet(fds)?;
    let (keepers, spawners) = packets::pair()?;
    let spawner = GuestFds { console: console.try_clone()?, boot: spawner_boot, socket: spawners };
    Ok((GuestFds { console, boot, socket: keepers }, spawner))
}

/// Serves the new process from its clone until both it and the spawner have executed the guest.
fn attend_machine(
    plan: &LaunchPlan,
    pid: i32,
    materials: &Materials,
    report: &OwnedFd,
    companion: &OwnedFd,
    steps: &mut NativeSteps,
) -> Result<Vec<(NativeStep, u64)>, NativeFailure> {
    release(plan, pid, materials, report, steps)?;
    let killed =
        |step| NativeFailure { step, object: "killed".into(), source: io::ErrorKind::BrokenPipe.into() };
    // The spawner gets a copy of the machine's mounts, so the tree must be complete before the spawner is
    // made.
    let GuestHeard::Built(inside) = guest::hear(report)? else { return Err(killed(NativeStep::Root)) };
    let making = CompanionRequest { machine: pid, fail_at: plan.fail_at };
    let made = steps.run(NativeStep::Spawner, "companion", || {
        materials.spawner.send_with(companion, &making)?;
        companion::hear(companion)
    })?;
    let CompanionReport::Made = made else { return Err(unexpected(made)) };
    steps.run(NativeStep::Spawner, "go on", || guest::go_on(report))?;
    let heard = steps.run(NativeStep::Execute, "init", || io::Result::Ok(guest::hear(report)))?;
    let GuestHeard::End = heard? else { return Err(killed(NativeStep::Execute)) };
    match steps.run(NativeStep::Execute, "spawner", || companion::hear(companion))? {
        CompanionReport::Runs => Ok(inside),
        told => Err(unexpected(told)),
    }
}

/// Turns a companion's failure, or a message out of turn, into a failed step.
fn unexpected(told: CompanionReport) -> NativeFailure {
    match told {
        CompanionReport::Failed { step, object, errno } => {
            NativeFailure { step, object, source: io::Error::from_raw_os_error(errno) }
        }
        told => NativeFailure {
            step: NativeStep::Spawner,
            object: format!("unexpected {told:?}"),
            source: io::ErrorKind::InvalidData.into(),
        },
    }
}

/// Gives the waiting process its ids and its mounts, and releases it.
fn release(
    plan: &LaunchPlan,
    pid: i32,
    materials: &Materials,
    report: &OwnedFd,
    steps: &mut NativeSteps,
) -> Result<(), NativeFailure> {
    // The maps come before the release: without them the process can't become root of its namespace.
    steps.run(NativeStep::IdMaps, &plan.host_name, || {
        let map = ids::map_text(&plan.id_map);
        std::fs::write(format!("/proc/{pid}/uid_map"), &map)?;
        std::fs::write(format!("/proc/{pid}/gid_map"), &map)
    })?;
    // mount_setattr maps only detached mounts, and takes the map that the user namespace has at that moment.
    steps.run(NativeStep::MappedMounts, plan.image_root.display(), || {
        let namespace = match plan.owners {
            FileOwners::Mapped => Some(File::open(format!("/proc/{pid}/ns/user"))?),
            FileOwners::AsTheyAre => None,
        };
        let namespace = namespace.as_ref().map(AsFd::as_fd);
        let writable = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let fixed = writable | MountAttrFlags::MOUNT_ATTR_RDONLY;
        mounts::restrict(materials.tree.as_fd(), fixed, namespace)?;
        mounts::restrict(materials.programs.as_fd(), fixed, namespace)?;
        mounts::restrict(materials.disk.as_fd(), writable, namespace)
    })?;
    steps.run(NativeStep::Identity, "release", || guest::go_on(report))
}

/// A detached copy of a tree. Mounts inside the tree are not part of it and are left out.
fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    Ok(open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?)
}

fn clone_link(path: &Path) -> io::Result<OwnedFd> {
    // AT_SYMLINK_NOFOLLOW: a link in this place would put another directory into the sandbox.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let mount = open_tree(CWD, path, flags)?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    mounts::restrict(mount.as_fd(), flags, None)?;
    Ok(mount)
}
