//! Memory of the process.

#![expect(unsafe_code, reason = "the allocator's own call has no safe form")]

/// Returns free memory to the system. The allocator keeps what was freed in small pieces, so that a flood which is over would
/// count for ever. Takes milliseconds, and must not run on a thread of the runtime.
pub(crate) fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` takes the allocator's own locks and may be called from any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
