//! Objects that the kernel counts for each user or keeps in a namespace: watchers, timers, queues, shared memory.

use std::io;

use rustix::fs::inotify;
use rustix::pty::OpenptFlags;

/// More than any of the limits allows.
const MOST_TAKEN: i32 = 200_000;
/// Size of the shared memory object: one page, the smallest that the kernel gives.
const SHARED_BYTES: usize = 4096;
/// Mode of the objects: open to everybody, so that only namespaces keep others out.
const EVERYBODY: libc::c_int = 0o666;

/// Makes objects until refused and returns their number. They last as long as this process.
pub(crate) fn take_all(make: impl Fn() -> io::Result<()>) -> i32 {
    take_all_numbered(|_| make())
}

/// As `take_all`, with a number for each object.
pub(crate) fn take_all_numbered(make: impl Fn(i32) -> io::Result<()>) -> i32 {
    (0..MOST_TAKEN).find(|number| make(*number).is_err()).unwrap_or(MOST_TAKEN)
}

/// An inotify instance, for as long as this process lasts.
pub(crate) fn make_watcher() -> io::Result<()> {
    std::mem::forget(inotify::init(inotify::CreateFlags::CLOEXEC)?);
    Ok(())
}

/// A terminal, for as long as this process lasts.
pub(crate) fn make_terminal() -> io::Result<()> {
    std::mem::forget(rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?);
    Ok(())
}

/// A timer, which counts as a pending signal.
pub(crate) fn make_timer() -> io::Result<()> {
    let mut timer = std::ptr::null_mut();
    // SAFETY: no event is given, and `timer` outlives the call.
    accepted(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, std::ptr::null_mut(), &raw mut timer) })
}

/// System V shared memory under a key.
pub(crate) fn make_shared_memory(key: i32) -> io::Result<()> {
    // SAFETY: touches no memory; nothing is attached.
    accepted(unsafe { libc::shmget(key, SHARED_BYTES, libc::IPC_CREAT | EVERYBODY) })
}

/// Finds some that is there.
pub(crate) fn find_shared_memory(key: i32) -> io::Result<&'static str> {
    // SAFETY: touches no memory.
    accepted(unsafe { libc::shmget(key, 0, 0) }).map(|()| "found")
}

/// A System V message queue under a key.
pub(crate) fn make_message_queue(key: i32) -> io::Result<()> {
    // SAFETY: touches no memory.
    accepted(unsafe { libc::msgget(key, libc::IPC_CREAT | EVERYBODY) })
}

/// Finds one that is there.
pub(crate) fn find_message_queue(key: i32) -> io::Result<&'static str> {
    // SAFETY: touches no memory.
    accepted(unsafe { libc::msgget(key, 0) }).map(|()| "found")
}

fn accepted(result: impl Into<i64>) -> io::Result<()> {
    if result.into() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
