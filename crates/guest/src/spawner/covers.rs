//! Mounts that cover a file or a directory: an empty one, or a file with another text.
//!
//! They are clones of places in one small file system of the machine's own, which no other machine shares and nobody can write. It
//! stays mounted below the cover of its own mount point.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_remount, move_mount, open_tree};

/// A directory that every kernel has. It tells about file systems of the host and is to be covered.
const MOUNT_POINT: &str = "/proc/fs";
const EMPTY_DIRECTORY: &str = "directory";
const EMPTY_FILE: &str = "file";
/// Room for a few short texts; `stat` has a line for each processor.
const OPTIONS: &std::ffi::CStr = c"size=1m,nr_inodes=16,mode=0755";

/// The file system of covers.
pub(super) struct Covers {
    /// Its root, which is found through this descriptor also when its mount point is covered.
    root: OwnedFd,
}

impl Covers {
    /// Mounts the file system with an empty directory, an empty file, and a file for each name with its text.
    pub(super) fn make(texts: &[(&str, &str)]) -> io::Result<Self> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("tmpfs", MOUNT_POINT, "tmpfs", flags, Some(OPTIONS))?;
        let place = Path::new(MOUNT_POINT);
        fs::create_dir(place.join(EMPTY_DIRECTORY))?;
        fs::set_permissions(place.join(EMPTY_DIRECTORY), Permissions::from_mode(0o555))?;
        for (name, text) in texts.iter().chain([&(EMPTY_FILE, "")]) {
            fs::write(place.join(name), text)?;
            fs::set_permissions(place.join(name), Permissions::from_mode(0o444))?;
        }
        mount_remount(MOUNT_POINT, flags | MountFlags::RDONLY, "")?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(MOUNT_POINT, flags, Mode::empty())? })
    }

    /// Covers a path with nothing. A path that does not exist needs no cover.
    pub(super) fn hide(&self, path: &Path) -> io::Result<()> {
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => self.put(EMPTY_DIRECTORY, path),
            Ok(_) => self.put(EMPTY_FILE, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Covers a file with the text of this name.
    pub(super) fn replace(&self, path: &Path, name: &str) -> io::Result<()> {
        self.put(name, path)
    }

    fn put(&self, name: &str, target: &Path) -> io::Result<()> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let cover = open_tree(&self.root, name, flags)?;
        Ok(move_mount(&cover, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
    }
}
