//! Namespaces of this process's own, and flags of all its mounts.

#![expect(unsafe_code, reason = "unshare and mount_setattr have no safe wrapper")]

use std::io;

/// The kernel's `struct mount_attr`, version 0.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Moves this single-threaded process into a user namespace and a mount namespace that belongs to it.
pub(crate) fn own_users_and_mounts() -> io::Result<()> {
    // SAFETY: takes a number only; with one thread nothing else of the process relies on what it changes.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Takes set-user-id programs and devices away from every mount that there is now.
pub(crate) fn forbid_special_files() -> io::Result<()> {
    let attributes = MountAttributes {
        set: libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    // SAFETY: the structure is the kernel's version 0 layout, its size is passed, and it outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
