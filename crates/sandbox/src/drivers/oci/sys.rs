//! Code of a runtime's process between fork and exec.
#![expect(unsafe_code, reason = "pre_exec has no safe form")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::fs::CWD;
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, mount, mount_change, move_mount};

/// First delay between two checks of a child, doubled up to `MAX_DELAY`.
const FIRST_DELAY: Duration = Duration::from_millis(1);
const MAX_DELAY: Duration = Duration::from_millis(10);

/// A mount of the stage. Targets are absolute paths in the runtime's mount namespace.
pub(super) enum StagedMount {
    /// A detached mount.
    Made { mount: OwnedFd, target: CString },
    /// A view of directories of the stage, made there: the kernel takes its layers only from the mount
    /// namespace of the caller.
    View { options: CString, target: CString },
}

impl StagedMount {
    /// Puts the mount in place. Allocates nothing.
    fn place(&self) -> rustix::io::Result<()> {
        match self {
            Self::Made { mount, target } => {
                let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
                move_mount(mount.as_fd(), c"", CWD, target.as_c_str(), flags)
            }
            Self::View { options, target } => {
                let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
                mount(c"image", target.as_c_str(), c"overlay", flags, Some(options.as_c_str()))
            }
        }
    }
}

/// Makes the command's process end with the thread that starts it, and inherit only its standard streams.
pub(super) fn end_with_parent(command: &mut Command) {
    let parent = std::process::id().cast_signed();
    // SAFETY: the closure makes plain system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0
                || libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) < 0
            {
                return Err(io::Error::last_os_error());
            }
            // The server ended before the request above took effect; nobody would kill this process.
            if libc::getppid() != parent {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        });
    }
}

/// Gives the command's process a mount namespace of its own, from which nothing spreads to the host, and
/// attaches these mounts there, in this order. They end with the last process of that namespace and its
/// descendants.
pub(super) fn stage(command: &mut Command, mounts: Vec<StagedMount>) {
    // SAFETY: the closure makes plain system calls with descriptors and strings that it owns, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::unshare(libc::CLONE_NEWNS) < 0 {
                return Err(io::Error::last_os_error());
            }
            mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
            for mount in &mounts {
                mount.place()?;
            }
            Ok(())
        });
    }
}

/// Waits for a child. Kills it when the time is up.
pub(super) fn wait(mut child: Child, patience: Duration) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + patience;
    let mut pause = FIRST_DELAY;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(MAX_DELAY);
    }
}
