//! The limit of core dumps by every call that reaches it, and the pages of a file that wait to be written.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// From the kernel's table; libc does not name it on every target.
const SYS_CACHESTAT: libc::c_long = 451;
/// An address whose lower half is 0: a filter that reads half of a pointer takes it for none.
const ROUND_ADDRESS: usize = 0x1_0000_0000;

/// Ways to change the limit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CoreLimitCall {
    /// The old call, which no libc makes any more.
    Old,
    /// The present call, for a process by its number.
    OfProcess(libc::pid_t),
    /// The present call, with a limit whose address ends in 32 zero bits.
    FromRoundAddress,
}

/// Returns the soft and the hard limit of core dumps.
pub(crate) fn core_limit() -> io::Result<String> {
    let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes to `found`, which outlives the call.
    accepted(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            libc::RLIMIT_CORE,
            std::ptr::null::<libc::rlimit>(),
            &raw mut found,
        )
    })?;
    Ok(format!("{} {}", found.rlim_cur, found.rlim_max))
}

/// Lowers both limits of core dumps to 0.
pub(crate) fn lower_core_limit(call: CoreLimitCall) -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let nowhere = std::ptr::null_mut::<libc::rlimit>();
    let by_new_call = |process: libc::pid_t, limit: *const libc::rlimit| {
        // SAFETY: callers pass a limit that outlives the call; the kernel writes nothing.
        accepted(unsafe { libc::syscall(libc::SYS_prlimit64, process, libc::RLIMIT_CORE, limit, nowhere) })
    };
    match call {
        CoreLimitCall::Old => {
            // SAFETY: the kernel reads `none`, which outlives the call.
            accepted(unsafe { libc::syscall(libc::SYS_setrlimit, libc::RLIMIT_CORE, &raw const none) })
        }
        CoreLimitCall::OfProcess(process) => by_new_call(process, &raw const none),
        CoreLimitCall::FromRoundAddress => by_new_call(0, zero_page_at(ROUND_ADDRESS)?.cast()),
    }
}

/// Maps a page of zeros at an address, for as long as this process lasts.
fn zero_page_at(address: usize) -> io::Result<*const libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let wanted = std::ptr::without_provenance_mut(address);
    // SAFETY: the mapping replaces no other.
    let mapped = unsafe { libc::mmap(wanted, 4096, libc::PROT_READ, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped) }
}

/// Returns the pages of a file that are not on its disk yet.
pub(crate) fn dirty_pages(path: &str) -> io::Result<u64> {
    let file = File::open(path)?;
    // Offset and length: the whole file. The second field of the answer is the number of dirty pages.
    let (range, mut found) = ([0_u64; 2], [0_u64; 5]);
    // SAFETY: the kernel reads `range` and writes `found`, which have the layouts of this call and outlive it.
    accepted(unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), found.as_mut_ptr(), 0_u32)
    })?;
    Ok(found[1])
}

fn accepted(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
