//! mount_setattr(2), which rustix lacks.

#![expect(unsafe_code, reason = "mount_setattr has no safe form")]

use std::ffi::CString;
use std::io;
use std::path::Path;

/// From the kernel's `linux/mount.h` and `linux/fcntl.h`.
const MOUNT_ATTR_NOSUID: u64 = 2;
const MOUNT_ATTR_NODEV: u64 = 4;
const AT_RECURSIVE: libc::c_int = 0x8000;

/// The kernel's `struct mount_attr`, version 0.
#[repr(C)]
struct MountSettings {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Keeps set-user-id bits from meaning anything on a mount and on all below it.
pub(crate) fn forbid_set_user_id(path: &Path) -> io::Result<()> {
    set(path, MOUNT_ATTR_NOSUID)
}

/// Keeps devices from being opened on a mount and on all below it.
pub(crate) fn forbid_devices(path: &Path) -> io::Result<()> {
    set(path, MOUNT_ATTR_NODEV)
}

fn set(path: &Path, flags: u64) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_encoded_bytes())?;
    let attributes = MountSettings { set: flags, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: path and structure outlive the call; the structure is the kernel's version 0 layout and its size is passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            AT_RECURSIVE,
            &raw const attributes,
            size_of::<MountSettings>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
