//! Signals: SIGCHLD as a descriptor, and the clean slate that a program expects.

#![expect(unsafe_code, reason = "signal sets and dispositions are C structures")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The end of children as something to poll. No handler is installed, so PID 1 stays immune to signals from inside.
#[derive(Debug)]
pub(crate) struct ChildSignals(OwnedFd);

impl ChildSignals {
    /// Blocks SIGCHLD in this single-threaded process and opens the descriptor.
    pub(crate) fn open() -> io::Result<Self> {
        descriptor(&[libc::SIGCHLD]).map(Self)
    }

    /// Forgets the signals that arrived; call it before reaping.
    pub(crate) fn clear(&self) {
        arrived(&self.0);
    }
}

/// Blocks these signals in this single-threaded process and opens a descriptor on which they arrive instead.
pub(super) fn descriptor(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before the other calls read it; null for the old mask is allowed; a new
    // descriptor is owned by nobody else.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) < 0 {
            return Err(io::Error::last_os_error());
        }
        let number = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Takes the signals that arrived. Those of one number don't queue, so one read is enough.
pub(super) fn arrived(descriptor: &OwnedFd) -> Vec<u32> {
    const ROOM: usize = 8;
    let mut records = [MaybeUninit::<libc::signalfd_siginfo>::uninit(); ROOM];
    // SAFETY: the length passed to the call is the length of the buffer.
    let length =
        unsafe { libc::read(descriptor.as_raw_fd(), records.as_mut_ptr().cast(), size_of_val(&records)) };
    let count = usize::try_from(length).unwrap_or(0) / size_of::<libc::signalfd_siginfo>();
    // SAFETY: the kernel writes whole records and returns the bytes that it wrote, so these records are initialised.
    records.iter().take(count).map(|record| unsafe { record.assume_init_ref() }.ssi_signo).collect()
}

impl AsFd for ChildSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Gives every signal its default action and unblocks all, as a program expects after exec.
pub(crate) fn default_signals() {
    // SAFETY: SIG_DFL is a valid action for every signal; those that can't be changed answer EINVAL, which is right.
    // sigemptyset initialises the set before it is read.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}
