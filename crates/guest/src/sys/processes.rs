//! Fork, exec and kill.

#![expect(unsafe_code, reason = "fork, clone and exec have no safe wrapper")]

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::Pid;

/// Which side of a fork this is.
#[derive(Debug)]
pub(crate) enum Forked {
    /// The new process. It must end in [`exec`], [`exec_program`] or [`leave`].
    Child,
    /// The old process, with the new one's pid.
    Parent(Pid),
}

/// Namespaces that a forked child gets of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Namespaces {
    /// None: it shares its parent's.
    Shared,
    /// Processes and mounts: the child is PID 1 of a pid namespace.
    OwnPidsAndMounts,
}

/// Forks this single-threaded process.
pub(crate) fn fork() -> io::Result<Forked> {
    fork_into(Namespaces::Shared)
}

/// Forks this single-threaded process, the child into namespaces of its own.
pub(crate) fn fork_into(namespaces: Namespaces) -> io::Result<Forked> {
    let flags = match namespaces {
        Namespaces::Shared => libc::SIGCHLD,
        Namespaces::OwnPidsAndMounts => libc::SIGCHLD | libc::CLONE_NEWPID | libc::CLONE_NEWNS,
    };
    // SAFETY: without CLONE_VM and with a null stack, clone(2) is fork(2): the child runs on a copy of this memory. The
    // process has one thread, so no lock is held by a thread that the child lacks.
    let result = unsafe {
        libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0_usize, 0_usize, 0_usize, 0_usize)
    };
    match result {
        0 => Ok(Forked::Child),
        pid if pid > 0 => i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .map(Forked::Parent)
            .ok_or_else(|| io::Error::other("pid")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives this process a control group namespace of its own, rooted in the groups that it is in.
pub(crate) fn own_control_groups() -> io::Result<()> {
    // SAFETY: takes a number only; this flag changes nothing that other code of the process relies on.
    if unsafe { libc::unshare(libc::CLONE_NEWCGROUP) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has the time since boot begin now for the children of this process, which stays with the host's.
pub(crate) fn own_boot_time() -> io::Result<()> {
    // SAFETY: takes a number only; this flag changes nothing for the process itself.
    if unsafe { libc::unshare(libc::CLONE_NEWTIME) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Whole seconds: the offset must leave the clock at or above zero.
    std::fs::write("/proc/self/timens_offsets", format!("boottime -{} 0", boot.tv_sec))
}

/// Moves this single-threaded process into a user namespace, and a mount namespace that belongs to it.
pub(crate) fn own_users_and_mounts() -> io::Result<()> {
    // SAFETY: takes a number only; with one thread nothing else of the process relies on what it changes.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Replaces this process by the program behind a descriptor. Returns only if that failed.
pub(crate) fn exec_program(program: BorrowedFd<'_>, argv: &[CString], env: &[CString]) -> io::Error {
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end in a null pointer and, like the strings they point to, outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

/// Replaces this process by the program at a path. Returns only if that failed.
pub(crate) fn exec(path: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end in a null pointer and, like the strings they point to, outlive the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Ends a forked child that could not exec, without running anything of its parent's.
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: _exit takes a number and never returns.
    unsafe { libc::_exit(code) }
}

/// Kills every process this one may signal, except itself; in a pid namespace's PID 1, all of the namespace.
pub(crate) fn kill_all() -> io::Result<()> {
    // SAFETY: takes numbers only.
    if unsafe { libc::kill(-1, libc::SIGKILL) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        error => Err(error),
    }
}

/// Drops one capability from the bounding set; `false` if the kernel knows no capability of that number.
pub(crate) fn drop_bounding_capability(number: u32) -> io::Result<bool> {
    // SAFETY: PR_CAPBSET_DROP takes numbers only.
    if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        error => Err(error),
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}
