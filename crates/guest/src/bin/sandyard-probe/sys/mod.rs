//! Raw system calls, each in a process of its own where it could end the caller.
#![expect(unsafe_code, reason = "a probe makes system calls that no safe interface offers")]

mod limits;
mod objects;

pub(crate) use limits::*;
pub(crate) use objects::*;

use std::ffi::CString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};

/// What a child's exit code cannot tell: that the call succeeded.
const SUCCEEDED: i32 = 255;

/// Makes a system call.
pub(crate) fn call(number: libc::c_long, arguments: [libc::c_long; 5]) -> io::Result<libc::c_long> {
    let [first, second, third, fourth, fifth] = arguments;
    // SAFETY: callers pass integers that are no valid pointers, descriptors or sizes, so no memory of ours is touched.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Runs a call in a child and returns `allowed`, `errno N` or `signal N`.
pub(crate) fn in_child(work: impl FnOnce() -> io::Result<libc::c_long>) -> String {
    // SAFETY: this process has one thread, and the child ends by _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = match work() {
            Ok(_) => SUCCEEDED,
            Err(error) => error.raw_os_error().unwrap_or(0),
        };
        // SAFETY: touches no memory.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    if pid < 0 || unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {
        return "no child".into();
    }
    match std::process::ExitStatus::from_raw(status) {
        status if status.code() == Some(SUCCEEDED) => "allowed".into(),
        status => match (status.code(), status.signal()) {
            (Some(code), _) => format!("errno {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        },
    }
}

/// getpid by the 32-bit interface.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call_by_interrupt() -> io::Result<libc::c_long> {
    let result: libc::c_long;
    // SAFETY: call 20 of the 32-bit table is getpid, which touches no memory.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => result, options(nostack));
    }
    if result < 0 {
        let number = i32::try_from(-result).unwrap_or(0);
        return Err(io::Error::from_raw_os_error(number));
    }
    Ok(result)
}

/// Writes a 32-bit program that exits with code 7, runs it, and returns its end.
pub(crate) fn run_foreign_program(path: &str) -> String {
    let made = std::fs::write(path, FOREIGN_PROGRAM)
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)));
    let ended = made.and_then(|()| Command::new(path).status());
    let _ = std::fs::remove_file(path);
    match ended {
        Ok(status) if status.code() == Some(7) => "allowed".into(),
        Ok(status) => format!("signal {}", status.signal().unwrap_or(0)),
        Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(0)),
    }
}

/// The smallest ELF file for i386: one segment at 0x08048000 whose code is `mov eax,1; mov ebx,7; int 0x80`.
const FOREIGN_PROGRAM: [u8; 96] = {
    let mut file = [0; 96];
    let header: [u8; 52] = [
        0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 1, 0, 0, 0, 0x54, 0x80, 0x04,
        0x08, 52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    ];
    let segment: [u8; 32] = [
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x04, 0x08, 0, 0x80, 0x04, 0x08, 96, 0, 0, 0, 96, 0, 0, 0, 5, 0, 0,
        0, 0, 0x10, 0, 0,
    ];
    let code: [u8; 12] = [0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80];
    let mut at = 0;
    while at < 96 {
        file[at] = if at < 52 {
            header[at]
        } else if at < 84 {
            segment[at - 52]
        } else {
            code[at - 84]
        };
        at += 1;
    }
    file
};

/// True if owner, mode and mount let this user write here.
pub(crate) fn may_write(path: &std::path::Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: a NUL-terminated path that outlives the call.
    unsafe { libc::access(path.as_ptr(), libc::W_OK) == 0 }
}

/// True if a process of that number exists, whoever owns it.
pub(crate) fn answers(pid: i32) -> bool {
    // SAFETY: signal 0 does nothing; touches no memory.
    let result = unsafe { libc::kill(pid, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Makes the null device somewhere.
pub(crate) fn make_device(path: &str) -> io::Result<()> {
    let path = CString::new(path).map_err(io::Error::other)?;
    // SAFETY: a NUL-terminated path that outlives the call.
    let result = unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(1, 3)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Forks sleeping children up to a number. Returns how many there were before it was refused.
pub(crate) fn fork_many(most: u64) -> u64 {
    for count in 0..most {
        // SAFETY: one thread; the child only sleeps and ends.
        match unsafe { libc::fork() } {
            -1 => return count,
            0 => {
                // SAFETY: plain calls without memory.
                unsafe {
                    libc::sleep(600);
                    libc::_exit(0)
                }
            }
            _ => {}
        }
    }
    most
}

/// Leaves its session and parent, ignores every signal that can be ignored, and stays.
pub(crate) fn hide_from_signals() -> ExitCode {
    for signal in 1..32 {
        // SAFETY: installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: one thread; the parent returns at once.
    if unsafe { libc::fork() } != 0 {
        return ExitCode::SUCCESS;
    }
    // SAFETY: plain calls without memory.
    unsafe {
        libc::setsid();
        loop {
            libc::pause();
        }
    }
}

/// Waits for a signal that ends this process.
pub(crate) fn wait_for_the_end() {
    // SAFETY: touches no memory.
    unsafe { libc::pause() };
}
