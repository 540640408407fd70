//! A sandbox's own view of a tree that many sandboxes share: an overlay without an upper layer.
//!
//! Watches (inotify), locks and leases belong to inodes. The overlay is a file system of its own, so its inodes
//! are those of one sandbox. The pages of files stay those of the tree, in memory once for all sandboxes.
//! Without an upper layer nothing can be written and nothing is ever copied.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::mount::MountAttrFlags;

use super::file_systems;

/// Options of every view. The tree is data: attributes of its files neither redirect a directory nor borrow
/// the content of another file.
pub(crate) const VIEW_OPTIONS: [(&str, &str); 2] = [("redirect_dir", "nofollow"), ("metacopy", "off")];

/// Makes a view of `tree`, a detached mount. Both directories must be in this process's mount namespace, and
/// its /proc visible.
///
/// `blank` is empty. The kernel asks for two layers, and the upper one owns the root directory and answers
/// statfs(2), by which the tree's file system would tell how full the host's disk is.
pub(crate) fn make(
    blank: BorrowedFd<'_>,
    tree: BorrowedFd<'_>,
    flags: MountAttrFlags,
) -> io::Result<OwnedFd> {
    // By descriptor: paths may hold colons and commas, which separate layers and options.
    let layers = format!("/proc/self/fd/{}:/proc/self/fd/{}", blank.as_raw_fd(), tree.as_raw_fd());
    let own = [("source", "image".to_owned()), ("lowerdir", layers)];
    let fixed = VIEW_OPTIONS.map(|(key, value)| (key, value.to_owned()));
    let options: Vec<_> = own.into_iter().chain(fixed).collect();
    file_systems::create("overlay", &options, flags | MountAttrFlags::MOUNT_ATTR_RDONLY)
}
