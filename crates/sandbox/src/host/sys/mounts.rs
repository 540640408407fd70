//! mount_setattr(2), which rustix lacks.
#![expect(unsafe_code, reason = "mount_setattr has no safe form")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::mount::MountAttrFlags;

/// The kernel's `struct mount_attr`, version 0.
#[repr(C)]
struct MountAttributeBits {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Makes a detached mount private and sets flags on it. With a user namespace, also maps owners through it.
pub(crate) fn restrict(
    mount: BorrowedFd<'_>,
    flags: MountAttrFlags,
    map: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut attributes = MountAttributeBits {
        set: u64::from(flags.bits()),
        clear: 0,
        propagation: libc::MS_PRIVATE,
        user_namespace: 0,
    };
    if let Some(namespace) = map {
        attributes.set |= u64::from(MountAttrFlags::MOUNT_ATTR_IDMAP.bits());
        attributes.user_namespace = u64::from(namespace.as_raw_fd().cast_unsigned());
    }
    // SAFETY: the structure is the kernel's version 0 layout, its size is passed, and it outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<MountAttributeBits>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
