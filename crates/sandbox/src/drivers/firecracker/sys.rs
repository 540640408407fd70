//! A program started where nothing of the server reaches it: in a session, control groups and namespaces of its own, with
//! files of the host bound into its jail.
//!
//! All of it happens between fork and exec, so it is gone with the process: no mount, name or handle is left on the host.
#![expect(unsafe_code, reason = "what a child does between fork and exec has no safe form")]

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_remount};

/// Where a program is put before it runs.
#[derive(Debug, Default)]
pub(super) struct SpawnPlace {
    /// Open `cgroup.procs` files that it enters.
    pub(super) entrances: Vec<OwnedFd>,
    /// Namespaces of its own (`CLONE_NEW*` bits); with that of mounts, `binds` are made.
    pub(super) namespaces: libc::c_int,
    /// Files that appear elsewhere, for the program alone.
    pub(super) binds: Vec<Bind>,
}

/// One file that appears elsewhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) source: CString,
    /// An existing file in whose place it appears.
    pub(super) target: CString,
    /// Whether it can't be written there.
    pub(super) read_only: bool,
}

/// Starts a program in a place.
pub(super) fn spawn(command: &mut Command, place: SpawnPlace) -> io::Result<Child> {
    let prepare = move || {
        rustix::process::setsid()?;
        for entrance in &place.entrances {
            rustix::io::write(entrance, b"0")?;
        }
        // SAFETY: unshare takes flags alone and touches no memory of the process.
        if unsafe { libc::unshare(place.namespaces) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if place.namespaces & libc::CLONE_NEWNS != 0 {
            mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
        }
        place.binds.iter().try_for_each(Bind::make)
    };
    // SAFETY: the closure runs in a forked child of a process with threads, so it may neither allocate nor lock: it makes system
    // calls on descriptors and strings that were made before, and builds errors from numbers.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

impl Bind {
    fn make(&self) -> io::Result<()> {
        mount_bind(self.source.as_c_str(), self.target.as_c_str())?;
        let mut flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        if self.read_only {
            flags |= MountFlags::RDONLY;
        }
        Ok(mount_remount(self.target.as_c_str(), flags, c"")?)
    }
}
