//! A user namespace for a machine that a container engine made without one: every id inside gets a number of its own on the host.
//!
//! Init is the host's root there, with just the right to write id maps. A child that stays behind writes them; from then on init is
//! root over nothing but this machine, and its mounts are copies that it can only cover, not take away.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Pid, Uid, WaitOptions, waitpid};

use crate::boot::{BootFailure, BootStep as _};
use crate::spawner::open_program;
use crate::sys::{self, Forked};

const STAGE: &str = "user namespace";
/// Number of user ids, and of group ids, in a machine.
const IDS: u32 = 65_536;

/// Moves this process into a user and mount namespace in which ids from 0 stand for the host's from `first` on. Returns our own
/// program, opened there: the mounts of the old namespace vanish with it, and Landlock refuses to execute a file without a mount.
pub(super) fn enter(first: u32) -> Result<OwnedFd, BootFailure> {
    // Mapped to low numbers, root of the machine would be one of the host's own users.
    if first < IDS {
        return Err(BootFailure::plain(STAGE, format!("{first} is among the host's own ids")));
    }
    let program = fs::read_link("/proc/self/exe").step(STAGE, "find our own program")?;
    let (ready, wait) = rustix::pipe::pipe().map(|(read, write)| (write, read)).step(STAGE, "make a pipe")?;
    let own = rustix::process::getpid();
    // Forked before the namespace exists: only a process outside it, with the host's rights, may map a whole range of ids.
    let writer = match sys::fork().step(STAGE, "fork")? {
        Forked::Child => {
            // With its own write end open, the child would never see the end of the pipe.
            drop(ready);
            // A byte means that the namespace exists. The end of the pipe without a byte means that it could not be made.
            let made = matches!(rustix::io::read(&wait, &mut [0_u8; 1]), Ok(1));
            let written = made && write_maps(own, first).is_ok();
            sys::leave(i32::from(!written))
        }
        Forked::Parent(pid) => pid,
    };
    // With init's own read end open, a call to a dead writer would seem to succeed.
    drop(wait);
    // The creator of a namespace pays for its kernel objects: as root, all machines would share root's limits.
    sandyard_sys::act_as(first).step(STAGE, "act as the machine's own root")?;
    sys::own_users_and_mounts().step(STAGE, "unshare users and mounts")?;
    rustix::io::write(&ready, b"1").step(STAGE, "call for the id maps")?;
    // Without the maps the changes of ids below fail.
    await_maps(writer)?;
    rustix::thread::set_thread_groups(&[]).step(STAGE, "supplementary groups")?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT).step(STAGE, "group 0")?;
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).step(STAGE, "user 0")?;
    // Changes of the user close a process to its own /proc.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).step(STAGE, "open /proc/self")?;
    open_program(&program)
}

fn write_maps(process: Pid, first: u32) -> io::Result<()> {
    let directory = Path::new("/proc").join(process.as_raw_nonzero().to_string());
    for name in ["gid_map", "uid_map"] {
        fs::write(directory.join(name), format!("0 {first} {IDS}\n"))?;
    }
    Ok(())
}

fn await_maps(writer: Pid) -> Result<(), BootFailure> {
    loop {
        match waitpid(Some(writer), WaitOptions::empty()) {
            Ok(Some((_, status))) if status.exit_status() == Some(0) => return Ok(()),
            Err(Errno::INTR) => {}
            _ => return Err(BootFailure::plain(STAGE, "the id maps could not be written")),
        }
    }
}
