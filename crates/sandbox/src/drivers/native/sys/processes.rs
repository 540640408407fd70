//! Processes: fork, clone3 into namespaces, descriptors at fixed numbers, execveat.
//!
//! All functions assume a single-threaded caller, which the launcher and its helpers are.
#![expect(unsafe_code, reason = "fork, clone3 and execveat have no safe form")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::process::DumpableBehavior;

/// Side of a fork on which the caller finds itself.
pub(in super::super) enum ForkSide {
    /// The caller, with the new process's id.
    Parent(i32),
    /// This is the new process.
    Child,
}

pub(in super::super) fn fork() -> io::Result<ForkSide> {
    // SAFETY: the process has one thread, so no lock can be held by a thread that does not exist in the child.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkSide::Child),
        pid => Ok(ForkSide::Parent(pid)),
    }
}

/// Parent of a new process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum CloneParent {
    /// The calling process, which gets SIGCHLD when the child ends.
    Caller,
    /// The caller's parent, so that the caller may exit at once.
    Grandparent,
}

/// Duplicates this process of root into new namespaces that belong to another user of the host.
pub(in super::super) fn clone_into_of(
    owner: u32,
    namespaces: libc::c_int,
    parent: CloneParent,
) -> io::Result<ForkSide> {
    sandyard_sys::act_as(owner)?;
    let cloned = clone_into(namespaces, parent);
    // The child stays that user until it becomes root of its own namespace.
    if !matches!(cloned, Ok(ForkSide::Child)) {
        sandyard_sys::act_as(0)?;
    }
    // Changing the effective user made the process undumpable (prctl(2)), which closes its /proc files to its
    // own user.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    cloned
}

/// Duplicates this process into new namespaces (`CLONE_NEW*` bits).
pub(in super::super) fn clone_into(namespaces: libc::c_int, parent: CloneParent) -> io::Result<ForkSide> {
    // SAFETY: clone_args is plain integers, for which zero means "not used".
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::from(namespaces.cast_unsigned());
    match parent {
        CloneParent::Caller => arguments.exit_signal = libc::SIGCHLD.cast_unsigned().into(),
        CloneParent::Grandparent => arguments.flags |= u64::from(libc::CLONE_PARENT.cast_unsigned()),
    }
    // SAFETY: no CLONE_VM, so this is a fork: the child has a copy of the only thread's stack. The structure outlives the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkSide::Child),
        pid => i32::try_from(pid).map(ForkSide::Parent).map_err(io::Error::other),
    }
}

/// Ends the process without running destructors or flushing buffers that a parent shares.
pub(in super::super) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit touches no memory of this process.
    unsafe { libc::_exit(code) }
}

/// Kills a process by id. Only for children that this process has not waited for.
pub(in super::super) fn kill_child(pid: i32) {
    // SAFETY: kill takes integers; the caller vouches that the id is still its child's.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Closes every descriptor from `first` on.
pub(in super::super) fn close_from(first: u32) -> io::Result<()> {
    range(first, 0)
}

/// Marks every descriptor from `first` on to be closed by exec.
pub(in super::super) fn close_on_exec_from(first: u32) -> io::Result<()> {
    range(first, libc::CLOSE_RANGE_CLOEXEC)
}

fn range(first: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: callers own every descriptor of this single-threaded process and use none in the range afterwards
    // (or only mark them).
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes `fd` also number `target`, open across exec. Replaces the descriptor that had the number.
pub(in super::super) fn place(fd: BorrowedFd<'_>, target: RawFd) -> io::Result<()> {
    // SAFETY: dup2 takes integers; the caller made sure that `target` is no descriptor it still needs.
    let result = unsafe { libc::dup2(fd.as_raw_fd(), target) };
    if result == target { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel reap this process's children.
pub(in super::super) fn reap_children_automatically() {
    // SAFETY: SIG_IGN installs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Gives a program that is about to be executed the signal state it expects: nothing ignored, nothing blocked.
pub(in super::super) fn reset_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: SIG_DFL installs no handler; numbers that can't be set are refused without effect.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an empty signal set on the stack, valid for the call.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Leaves the caller's session keyring, which the sandbox would otherwise share with the host.
pub(in super::super) fn leave_session_keyring() -> io::Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for an anonymous keyring.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0_usize) };
    match io::Error::last_os_error() {
        _ if result >= 0 => Ok(()),
        // A kernel without keyrings has none to leave.
        error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        error => Err(error),
    }
}

/// Becomes the program in `binary` with two arguments and an empty environment. Returns only on failure.
pub(in super::super) fn execute(binary: BorrowedFd<'_>, name: &CStr, role: &CStr) -> io::Error {
    let arguments = [name.as_ptr(), role.as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null::<libc::c_char>()];
    // SAFETY: both arrays end with null, hold NUL-terminated strings and outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            binary.as_raw_fd(),
            c"".as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}
