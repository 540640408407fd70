//! A user namespace by itself, to map the owners of a mount through.
#![expect(unsafe_code, reason = "clone has no safe form")]

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;

/// A user namespace with this map for users and groups, which lives as long as the descriptor. Blocks for a moment.
pub(crate) fn user_namespace(map: &str) -> io::Result<OwnedFd> {
    let flags = libc::c_long::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
    let parent = std::process::id().cast_signed();
    // SAFETY: without CLONE_VM and with a null stack, clone(2) is fork(2). The child makes only plain system calls, which are
    // safe in the copy of a process with threads, and never returns.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    if pid == 0 {
        // SAFETY: plain calls without memory. The kernel ends this process with the thread that made it, unless that was gone
        // before it was asked to.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != parent {
                libc::_exit(1);
            }
            loop {
                libc::pause();
            }
        }
    }
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let made = fs::write(format!("/proc/{pid}/uid_map"), map)
        .and_then(|()| fs::write(format!("/proc/{pid}/gid_map"), map))
        .and_then(|()| File::open(format!("/proc/{pid}/ns/user")));
    // SAFETY: a child of ours that nobody else waits for; no status is wanted.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    Ok(made?.into())
}
