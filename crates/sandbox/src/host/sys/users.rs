//! A user namespace without a process, through which the owners of a mount are mapped or in which a runtime
//! puts a container.
#![expect(unsafe_code, reason = "fork has no safe form")]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::pipe::PipeFlags;

/// Returns a user namespace with this map for users and groups. It belongs to `owner`, whose limits hold for
/// it, and lives as long as the descriptor. Blocks for a moment.
pub(crate) fn user_namespace(map: &str, owner: u32) -> io::Result<OwnedFd> {
    let (ready, made) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let parent = std::process::id().cast_signed();
    // SAFETY: the child makes only plain system calls, which are safe in the copy of a process with threads, and never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: plain calls; the byte outlives the call. The kernel ends this process with the thread that made it, unless that was
        // gone before it was asked to.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let stays = libc::getppid() == parent
                && sandyard_sys::act_as(owner).is_ok()
                && libc::unshare(libc::CLONE_NEWUSER) == 0
                && libc::write(made.as_raw_fd(), [1_u8].as_ptr().cast(), 1) == 1;
            if stays {
                loop {
                    libc::pause();
                }
            }
            libc::_exit(1)
        }
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    // With this copy open, the read below would not end when the child dies.
    drop(made);
    let namespace = match rustix::io::read(ready.as_fd(), &mut [0_u8; 1]) {
        Ok(1) => fs::write(format!("/proc/{pid}/uid_map"), map)
            .and_then(|()| fs::write(format!("/proc/{pid}/gid_map"), map))
            .and_then(|()| File::open(format!("/proc/{pid}/ns/user"))),
        _ => Err(io::Error::other("the kernel makes no user namespace")),
    };
    // SAFETY: a child of ours that nobody else waits for; no status is wanted.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    Ok(namespace?.into())
}
