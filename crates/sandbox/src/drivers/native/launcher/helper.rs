//! The host's half of making one sandbox: what needs the host's root, before and beside the new namespaces.
//!
//! Collect detached mounts → clone the process → write its id maps → map the mounts through its user namespace → let it go
//! on (`machine`) → wait until it has executed the guest or told why not.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

use super::super::sys::processes::{self, Parent, Side};
use super::super::sys::{loops, mounts};
use super::machine::{self, Materials, Report};
use super::messages::{Answer, LaunchFds, LaunchPlan, Order, Park, decode, encode};
use super::step::{Failure, Step, Steps};
use super::{channel, devices, root};

/// Ids of one sandbox.
const ID_RANGE: u32 = 65_536;
/// How long the disk's previous user may take to let go of it: the kernel writes its dirty pages first.
const DISK_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is asked.
const DISK_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Serves one socket to its end; returns the exit code.
pub(super) fn serve(socket: &OwnedFd) -> i32 {
    let mut groups = Park::default();
    loop {
        let Ok(packet) = channel::receive(socket.as_fd()) else { return 1 };
        if packet.is_end() {
            return 0;
        }
        let answer = match decode(&packet.bytes) {
            Ok(Order::Park(park)) => {
                let entered = enter_groups(&park.own);
                groups = park;
                entered.map_or_else(Answer::from, |()| Answer::Parked)
            }
            Ok(Order::Launch(plan)) => {
                let launched = launch(&plan, &groups, packet.fds);
                return finish(socket, launched);
            }
            Err(_) => return 1,
        };
        if reply(socket, &answer).is_err() {
            return 1;
        }
    }
}

/// Tells the driver; a sandbox that nobody was told of would be nobody's, so it dies.
fn finish(socket: &OwnedFd, launched: Result<(i32, Vec<(Step, u64)>), Failure>) -> i32 {
    match launched {
        Ok((pid, phases)) => match reply(socket, &Answer::Launched { pid, phases }) {
            Ok(()) => 0,
            Err(_) => {
                processes::kill_child(pid);
                1
            }
        },
        Err(failure) => i32::from(reply(socket, &failure.into()).is_err()),
    }
}

fn reply(socket: &OwnedFd, answer: &Answer) -> io::Result<()> {
    channel::send(socket.as_fd(), &encode(answer)?, &[])
}

/// Moves this process into a group of each hierarchy.
fn enter_groups(procs: &[std::path::PathBuf]) -> Result<(), Failure> {
    let mut steps = Steps::new(None);
    for path in procs {
        steps.run(Step::EnterControlGroups, path.display(), || std::fs::write(path, "0"))?;
    }
    Ok(())
}

fn launch(plan: &LaunchPlan, groups: &Park, fds: Vec<OwnedFd>) -> Result<(i32, Vec<(Step, u64)>), Failure> {
    let mut steps = Steps::new(plan.fail_at);
    let (ours, theirs) = steps.run(Step::Namespaces, "report socket", channel::pair)?;
    let mut materials = collect(plan, groups, fds, theirs, &mut steps)?;
    let side = steps.run(Step::Namespaces, &plan.host_name, || {
        processes::clone_into(machine::NAMESPACES, Parent::Grandparent)
    })?;
    let pid = match side {
        Side::Parent(pid) => pid,
        Side::Child => {
            drop(ours);
            machine::run(plan, materials)
        }
    };
    materials.report = None;
    let settled = release(plan, pid, &materials, &ours, &mut steps).and_then(|()| follow(&ours, &mut steps));
    match settled {
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

/// Opens everything the new process will need, while this one still has the host's rights and paths.
fn collect(
    plan: &LaunchPlan,
    groups: &Park,
    fds: Vec<OwnedFd>,
    report: OwnedFd,
    steps: &mut Steps,
) -> Result<Materials, Failure> {
    let mut fds: Vec<Option<OwnedFd>> = fds.into_iter().map(Some).collect();
    fds.resize_with(LaunchFds::COUNT, || None);
    let mut take = |which: LaunchFds| {
        fds.get_mut(which as usize).and_then(Option::take).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
    };
    let program = steps.run(Step::Descriptors, "program", || take(LaunchFds::Program))?;
    let boot = steps.run(Step::Descriptors, "boot configuration", || take(LaunchFds::Boot))?;
    let console = steps.run(Step::Descriptors, "console", || take(LaunchFds::Console))?;
    let tree = steps.run(Step::ImageTree, plan.image_root.display(), || clone_tree(&plan.image_root))?;
    let devices = steps.run(Step::Devices, "/dev", devices::collect)?;
    let disk = steps.run(Step::DiskMount, plan.disk.display(), || mount_disk(&plan.disk))?;
    let link = steps.run(Step::LinkMount, plan.link_directory.display(), || clone_link(&plan.link_directory))?;
    let job_procs = steps.run(Step::EnterControlGroups, "job", || open_all(&groups.job))?;
    Ok(Materials { tree, devices, disk, link, program, boot, console, job_procs, report: Some(report) })
}

/// Gives the waiting process its ids and its mounts, and tells it to go on.
fn release(
    plan: &LaunchPlan,
    pid: i32,
    materials: &Materials,
    report: &OwnedFd,
    steps: &mut Steps,
) -> Result<(), Failure> {
    steps.run(Step::IdMaps, plan.id_base, || {
        let map = format!("0 {} {ID_RANGE}\n", plan.id_base);
        std::fs::write(format!("/proc/{pid}/uid_map"), &map)?;
        std::fs::write(format!("/proc/{pid}/gid_map"), &map)
    })?;
    steps.run(Step::MappedMounts, plan.image_root.display(), || {
        let namespace = File::open(format!("/proc/{pid}/ns/user"))?;
        let writable = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let fixed = writable | MountAttrFlags::MOUNT_ATTR_RDONLY;
        mounts::restrict(materials.tree.as_fd(), fixed, Some(namespace.as_fd()))?;
        mounts::restrict(materials.disk.as_fd(), writable, Some(namespace.as_fd()))
    })?;
    steps.run(Step::Identity, "release", || channel::send(report.as_fd(), b"go", &[]))
}

/// Waits for the new process's report, then for the end of its socket, which execve brings.
fn follow(report: &OwnedFd, steps: &mut Steps) -> Result<Vec<(Step, u64)>, Failure> {
    let mut phases = None;
    loop {
        let packet = steps.run(Step::Execute, "report", || channel::receive(report.as_fd()))?;
        if packet.is_end() {
            // An end without a report is a process that was killed.
            let killed = || io::Error::from(io::ErrorKind::BrokenPipe);
            return steps.run(Step::Execute, "guest", || phases.ok_or_else(killed));
        }
        match steps.run(Step::Execute, "report", || decode(&packet.bytes))? {
            Report::Built(built) => phases = Some(built),
            Report::Failed { step, object, errno } => {
                return Err(Failure { step, object, source: io::Error::from_raw_os_error(errno) });
            }
        }
    }
}

/// A detached copy of the image's mount. Mounts inside the tree are not part of the image and are left out.
fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    Ok(open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?)
}

fn clone_link(path: &Path) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let mount = open_tree(CWD, path, flags)?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    mounts::restrict(mount.as_fd(), flags, None)?;
    Ok(mount)
}

/// Mounts a disk image nowhere: when the last process that holds it is gone, so are the mount and the loop device.
fn mount_disk(path: &Path) -> io::Result<OwnedFd> {
    let image = OpenOptions::new().read(true).write(true).open(path)?;
    lock(&image)?;
    let device = loops::attach(&image)?;
    let source = device.path.display().to_string();
    // The image is sparse and reads as zeros, so the kernel need not zero inode tables in the background.
    let options = [("source", source), ("noinit_itable", String::new()), ("errors", "remount-ro".to_owned())];
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOATIME;
    root::new_file_system("ext4", &options, flags)
}

/// Locks the image for as long as a loop device holds it: the lock belongs to the open file, which the device keeps.
/// Two mounts of one image would destroy it.
fn lock(image: &File) -> io::Result<()> {
    let deadline = Instant::now() + DISK_PATIENCE;
    loop {
        match rustix::fs::flock(image, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                rustix::event::poll(&mut [], Some(&DISK_POLL))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn open_all(paths: &[std::path::PathBuf]) -> io::Result<Vec<OwnedFd>> {
    paths
        .iter()
        .map(|path| Ok(rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?))
        .collect()
}
