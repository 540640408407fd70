//! The host's half of making one sandbox: what needs the rights of the host's root, or of the yard's, before and beside
//! the new namespaces.
//!
//! Collect detached mounts → clone the process → write its id maps → map the mounts through its user namespace → let it
//! build itself (`machine`) → have the companion make the spawner → wait until both have executed the guest or told why not.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::Timespec;
use rustix::fs::CWD;
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

use super::super::sys::processes::{self, Parent, Side};
use super::companion::{self, Making, Told};
use super::guest::{self, GuestFds, Heard};
use super::machine::{self, Materials};
use super::messages::{Answer, DiskPlan, LaunchFds, LaunchPlan, Order, Owners, Park, decode, encode};
use super::step::{Failure, Step, Steps};
use super::{channel, devices, memory_disk};
use crate::parts::sys::mounts;
use crate::parts::{ids, image_disk};

/// How often a companion's groups are tried before they are left to a later sweep.
const ABANDON_LOOKS: usize = 250;
/// And how long it is waited in between.
const ABANDON_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Serves one socket to its end; returns the exit code.
pub(super) fn serve(socket: &OwnedFd) -> i32 {
    match attend(socket) {
        Ok(()) => 0,
        // The driver is gone or makes no sense; there is nobody to tell.
        Err(_) => 1,
    }
}

fn attend(socket: &OwnedFd) -> io::Result<()> {
    let packet = channel::receive(socket.as_fd())?;
    let Order::Park(groups) = decode(&packet.bytes)? else { return Err(io::ErrorKind::InvalidData.into()) };
    let parked = match park(&groups) {
        Ok(parked) => parked,
        Err(failure) => return reply(socket, &failure.into()),
    };
    reply(socket, &Answer::Parked)?;
    let packet = channel::receive(socket.as_fd())?;
    if packet.is_end() {
        drop(parked);
        abandon(&groups);
        return Ok(());
    }
    let Order::Launch(plan) = decode(&packet.bytes)? else { return Err(io::ErrorKind::InvalidData.into()) };
    finish(socket, launch(&plan, parked, packet.fds))
}

/// What a waiting helper has ready.
struct Parked {
    /// The companion, waiting in the job's groups.
    companion: OwnedFd,
    /// A blank disk, mounted.
    disk: Option<OwnedFd>,
}

/// Enters the groups, with a companion in the job's, and mounts the blank disk.
fn park(groups: &Park) -> Result<Parked, Failure> {
    let companion = companion::start(&groups.job)?;
    enter_groups(&groups.own, groups.fail_at)?;
    let lost = |source| Failure { step: Step::EnterControlGroups, object: "companion".into(), source };
    match companion::hear(&companion).map_err(lost)? {
        Told::Waiting => {}
        told => return Err(unexpected(told)),
    }
    let mut steps = Steps::new(groups.fail_at);
    let mount = |path: &PathBuf| steps.run(Step::DiskMount, path.display(), || image_disk::mount(path));
    let disk = groups.disk.as_ref().map(mount).transpose()?;
    Ok(Parked { companion, disk })
}

/// Removes what was prepared for a driver that is gone, killed perhaps: it will not. Whatever fails here is left to the
/// sweep of the next one.
fn abandon(groups: &Park) {
    if let Some(disk) = &groups.disk {
        let _ = std::fs::remove_file(disk);
    }
    for (entrance, refuge) in groups.job.iter().zip(&groups.refuges) {
        let parents: Vec<&Path> = entrance.ancestors().skip(1).take(3).collect();
        let [job, slot, yard] = parents.as_slice() else { continue };
        let _ = std::fs::write(refuge, "0");
        for _ in 0..ABANDON_LOOKS {
            // The companion is on its way out.
            match std::fs::remove_dir(job) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    let _ = rustix::event::poll(&mut [], Some(&ABANDON_PAUSE));
                }
                _ => break,
            }
        }
        for directory in [&slot.join("own"), *slot, *yard] {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// Tells the driver; a sandbox that nobody was told of would be nobody's, so it dies.
fn finish(socket: &OwnedFd, launched: Result<(i32, Vec<(Step, u64)>), Failure>) -> io::Result<()> {
    let (pid, phases) = match launched {
        Ok(launched) => launched,
        Err(failure) => return reply(socket, &failure.into()),
    };
    reply(socket, &Answer::Launched { pid, phases }).inspect_err(|_| processes::kill_child(pid))
}

fn reply(socket: &OwnedFd, answer: &Answer) -> io::Result<()> {
    channel::send(socket.as_fd(), &encode(answer)?, &[])
}

/// Moves this process into a group of each hierarchy.
pub(super) fn enter_groups(procs: &[PathBuf], fail_at: Option<Step>) -> Result<(), Failure> {
    let mut steps = Steps::new(fail_at);
    for path in procs {
        steps.run(Step::EnterControlGroups, path.display(), || std::fs::write(path, "0"))?;
    }
    Ok(())
}

fn launch(plan: &LaunchPlan, parked: Parked, fds: Vec<OwnedFd>) -> Result<(i32, Vec<(Step, u64)>), Failure> {
    let mut steps = Steps::new(plan.fail_at);
    let Parked { companion, disk } = parked;
    let materials = collect(plan, disk, fds, &mut steps)?;
    let (ours, theirs) = steps.run(Step::Namespaces, "report socket", channel::pair)?;
    let side = steps.run(Step::Namespaces, &plan.host_name, || match plan.owners {
        Owners::Mapped => {
            processes::clone_into_of(ids::owner(&plan.id_map), machine::NAMESPACES, Parent::Grandparent)
        }
        Owners::AsTheyAre => processes::clone_into(machine::NAMESPACES, Parent::Grandparent),
    })?;
    let Side::Parent(pid) = side else {
        drop(ours);
        machine::run(plan, materials, theirs)
    };
    drop(theirs);
    match attend_machine(plan, pid, &materials, &ours, &companion, &mut steps) {
        Ok(mut inside) => {
            let mut phases = steps.into_phases();
            phases.append(&mut inside);
            Ok((pid, phases))
        }
        Err(failure) => {
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
    steps: &mut Steps,
) -> Result<Materials, Failure> {
    let (guest, spawner) = steps.run(Step::Descriptors, "from the driver", || guest_fds(fds))?;
    let tree = steps.run(Step::ImageTree, plan.image_root.display(), || clone_tree(&plan.image_root))?;
    let devices = steps.run(Step::Devices, "/dev", devices::collect)?;
    let disk =
        steps.run(Step::DiskMount, plan.disk.path().display(), || match (&plan.disk, parked_disk) {
            (DiskPlan::Image { parked: true, .. }, Some(disk)) => Ok(disk),
            (DiskPlan::Image { path, .. }, _) => image_disk::mount(path),
            (DiskPlan::Memory(disk), _) => memory_disk::open(disk),
        })?;
    let link =
        steps.run(Step::LinkMount, plan.link_directory.display(), || clone_link(&plan.link_directory))?;
    Ok(Materials { tree, devices, disk, link, guest, spawner })
}

/// Sorts the driver's descriptors for init and spawner, with a new socket between the two.
fn guest_fds(fds: Vec<OwnedFd>) -> io::Result<(GuestFds, GuestFds)> {
    let LaunchFds { program, console, boot, spawner_boot, agent } = LaunchFds::from_packet(fds)?;
    let (keepers, spawners) = channel::pair()?;
    let spawner = GuestFds {
        program: program.try_clone()?,
        console: console.try_clone()?,
        boot: spawner_boot,
        socket: spawners,
        agent: Some(agent),
    };
    Ok((GuestFds { program, console, boot, socket: keepers, agent: None }, spawner))
}

/// From the new process's first breath until it and the spawner have executed the guest.
fn attend_machine(
    plan: &LaunchPlan,
    pid: i32,
    materials: &Materials,
    report: &OwnedFd,
    companion: &OwnedFd,
    steps: &mut Steps,
) -> Result<Vec<(Step, u64)>, Failure> {
    release(plan, pid, materials, report, steps)?;
    let killed = |step| Failure { step, object: "killed".into(), source: io::ErrorKind::BrokenPipe.into() };
    let Heard::Built(inside) = guest::hear(report)? else { return Err(killed(Step::Root)) };
    let making = Making { machine: pid, fail_at: plan.fail_at };
    let made = steps.run(Step::Spawner, "companion", || {
        materials.spawner.send_with(companion, &making)?;
        companion::hear(companion)
    })?;
    let Told::Made = made else { return Err(unexpected(made)) };
    steps.run(Step::Spawner, "go on", || guest::go_on(report))?;
    let heard = steps.run(Step::Execute, "init", || io::Result::Ok(guest::hear(report)))?;
    let Heard::End = heard? else { return Err(killed(Step::Execute)) };
    match steps.run(Step::Execute, "spawner", || companion::hear(companion))? {
        Told::Runs => Ok(inside),
        told => Err(unexpected(told)),
    }
}

/// A companion's failure, or its confusion.
fn unexpected(told: Told) -> Failure {
    match told {
        Told::Failed { step, object, errno } => {
            Failure { step, object, source: io::Error::from_raw_os_error(errno) }
        }
        told => Failure {
            step: Step::Spawner,
            object: format!("unexpected {told:?}"),
            source: io::ErrorKind::InvalidData.into(),
        },
    }
}

/// Gives the waiting process its ids and its mounts, and tells it to go on.
fn release(
    plan: &LaunchPlan,
    pid: i32,
    materials: &Materials,
    report: &OwnedFd,
    steps: &mut Steps,
) -> Result<(), Failure> {
    steps.run(Step::IdMaps, &plan.host_name, || {
        let map = ids::map_text(&plan.id_map);
        std::fs::write(format!("/proc/{pid}/uid_map"), &map)?;
        std::fs::write(format!("/proc/{pid}/gid_map"), &map)
    })?;
    steps.run(Step::MappedMounts, plan.image_root.display(), || {
        let namespace = match plan.owners {
            Owners::Mapped => Some(File::open(format!("/proc/{pid}/ns/user"))?),
            Owners::AsTheyAre => None,
        };
        let namespace = namespace.as_ref().map(AsFd::as_fd);
        let writable = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let fixed = writable | MountAttrFlags::MOUNT_ATTR_RDONLY;
        mounts::restrict(materials.tree.as_fd(), fixed, namespace)?;
        mounts::restrict(materials.disk.as_fd(), writable, namespace)
    })?;
    steps.run(Step::Identity, "release", || guest::go_on(report))
}

/// A detached copy of the image's mount. Mounts inside the tree are not part of the image and are left out.
fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    Ok(open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?)
}

fn clone_link(path: &Path) -> io::Result<OwnedFd> {
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
