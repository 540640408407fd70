//! Mounts that cover a file or a directory: an empty one, or one with other texts.
//!
//! They are clones of places in one small file system of the machine's own, which no other machine shares. It stays mounted below the
//! cover of its own mount point, and every mount of it is read-only. Texts that change are written through a descriptor that was
//! opened before.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_remount, move_mount, open_tree};

/// A directory that every kernel has. It tells about file systems of the host and is to be covered.
const MOUNT_POINT: &str = "/proc/fs";
const EMPTY_DIRECTORY: &str = "directory";
const EMPTY_FILE: &str = "file";
/// Room for a few short texts; `cpuinfo` has 2 KiB for each processor.
const OPTIONS: &std::ffi::CStr = c"size=4m,nr_inodes=64,mode=0755";

/// The file system of covers.
pub(super) struct Covers {
    /// Its root, which is found through this descriptor also when its mount point is covered.
    root: OwnedFd,
    /// A clone of the mount from before it became read-only.
    writable: OwnedFd,
}

impl Covers {
    /// Mounts the file system with an empty directory, an empty file, and a file for each path with its text.
    pub(super) fn make(texts: &[(String, String)]) -> io::Result<Self> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("tmpfs", MOUNT_POINT, "tmpfs", flags, Some(OPTIONS))?;
        let place = Path::new(MOUNT_POINT);
        fs::create_dir(place.join(EMPTY_DIRECTORY))?;
        fs::set_permissions(place.join(EMPTY_DIRECTORY), Permissions::from_mode(0o555))?;
        write(&place.join(EMPTY_FILE), "")?;
        for (path, text) in texts {
            write(&place.join(path), text)?;
        }
        let writable = open_tree(CWD, MOUNT_POINT, clone_flags())?;
        // This mount alone: the clone stays writable, and is never attached anywhere.
        mount_remount(MOUNT_POINT, MountFlags::BIND | MountFlags::RDONLY | flags, "")?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(MOUNT_POINT, flags, Mode::empty())?, writable })
    }

    /// Opens the text of a path, to replace it later.
    pub(super) fn open(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.writable, path, flags, Mode::empty())?.into())
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

    /// Covers a file or directory with the one of this name.
    pub(super) fn replace(&self, path: &Path, name: &str) -> io::Result<()> {
        self.put(name, path)
    }

    fn put(&self, name: &str, target: &Path) -> io::Result<()> {
        let cover = open_tree(&self.root, name, clone_flags())?;
        Ok(move_mount(&cover, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
    }
}

fn clone_flags() -> OpenTreeFlags {
    OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC
}

/// Writes a text that everybody may read, and the directories above it. Its owner may write, because not every driver leaves this
/// process the capability that passes over modes. Every mount that the job sees is read-only.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
    }
    fs::write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}
