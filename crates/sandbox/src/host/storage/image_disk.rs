//! A disk image as a mount. Each has a loop device of its own, which the kernel frees with the last process
//! that holds the mount.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::fs::FlockOperation;
use rustix::mount::MountAttrFlags;

use crate::host::storage::file_systems;
use crate::host::sys::loops;

/// Longest time for the disk's previous user to release it: the kernel writes its dirty pages first.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay between two attempts to lock the image.
const POLL_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Mounts a disk image without attaching it. When the last process that holds the mount is gone, so are the mount and the loop
/// device.
pub(crate) fn mount(path: &Path) -> io::Result<OwnedFd> {
    let image = OpenOptions::new().read(true).write(true).open(path)?;
    lock(&image)?;
    let device = loops::attach(&image)?;
    let source = device.path.display().to_string();
    // The image is sparse and reads as zeros, so the kernel need not zero inode tables in the background.
    let options = [("source", source), ("noinit_itable", String::new()), ("errors", "remount-ro".to_owned())];
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOATIME;
    file_systems::create("ext4", &options, flags)
}

/// Locks the image for as long as a loop device holds it: the lock belongs to the open file, which the device keeps.
/// Two mounts of one image would destroy it.
fn lock(image: &File) -> io::Result<()> {
    let deadline = Instant::now() + RELEASE_TIMEOUT;
    loop {
        match rustix::fs::flock(image, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                rustix::event::poll(&mut [], Some(&POLL_DELAY))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
