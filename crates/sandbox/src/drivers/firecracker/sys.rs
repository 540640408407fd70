//! Starts a program that nothing of the server reaches: in a session, control groups and namespaces of its
//! own, with files of the host bound into its jail.
//!
//! All of it happens between fork and exec and ends with the process: no mount, name or handle is left on the
//! host.
#![expect(unsafe_code, reason = "what a child does between fork and exec has no safe form")]

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_remount};
use rustix::process::{Resource, Rlimit};

/// Surroundings that a program gets before it runs.
#[derive(Debug, Default)]
pub(super) struct SpawnPlace {
    /// Open `cgroup.procs` files that the program enters.
    pub(super) entrances: Vec<OwnedFd>,
    /// Namespaces of its own (`CLONE_NEW*` bits). `binds` need a mount namespace.
    pub(super) namespaces: libc::c_int,
    /// Files that only the program sees in other places.
    pub(super) binds: Vec<Bind>,
}

/// One file of the host that appears at another path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) source: CString,
    /// Existing file that the bind covers.
    pub(super) target: CString,
    /// True if the program can't write it.
    pub(super) read_only: bool,
}

/// Starts a program in its surroundings.
pub(super) fn spawn(command: &mut Command, place: SpawnPlace) -> io::Result<Child> {
    let prepare = move || {
        rustix::process::setsid()?;
        // A machine that makes Firecracker crash must not reach the host's core handler. One byte, not none: where
        // the host pipes core dumps to a program, only 1 keeps the kernel from running it.
        rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) })?;
        // Groups before the first own instruction: a server killed from here on leaves a process that its
        // groups can kill.
        for entrance in &place.entrances {
            rustix::io::write(entrance, b"0")?;
        }
        // SAFETY: unshare takes flags alone and touches no memory of the process.
        if unsafe { libc::unshare(place.namespaces) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if place.namespaces & libc::CLONE_NEWNS != 0 {
            // Before the binds, or they would spread to the host's mounts.
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
        // A bind takes over its source's flags only; the restrictions need a second call.
        Ok(mount_remount(self.target.as_c_str(), flags, c"")?)
    }
}
