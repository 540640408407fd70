//! The workspace as a directory descriptor: every path is resolved by the kernel and can't lead out of it.
//!
//! openat2 with RESOLVE_BENEATH makes the check and the open one step, so there is nothing to race. Symbolic links may be
//! followed on the way as long as they stay beneath.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, fstatvfs, mkdirat, openat2, readlinkat,
    statat,
};
use rustix::io::Errno;
use sandyard_protocol::{EntryKind, FileStat};

use super::error::FileError;
use super::names::show;
use super::path::RelativePath;

/// A rename beside the path makes openat2 return EAGAIN. A job that renames for ever must not hold a worker for ever.
const TRIES: usize = 64;
/// New directories, less the umask.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

/// The directory that file operations stay in.
pub(super) struct Workspace {
    root: OwnedFd,
}

impl Workspace {
    /// Opens the workspace by a trusted path. If the job closed its own directory, its mode is restored: otherwise its work could not be exported.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || Ok(Self { root: rustix::fs::open(path, flags, Mode::empty())? });
        let opened = match open() {
            Err(Errno::ACCESS) => rustix::fs::chmod(path, DIRECTORY_MODE).and_then(|()| open()),
            opened => opened,
        };
        opened.map_err(FileError::kernel("open the workspace"))
    }

    /// Size of the file system that it is on.
    pub(super) fn disk_bytes(&self) -> Result<u64, FileError> {
        let disk = fstatvfs(&self.root).map_err(FileError::kernel("look at the disk"))?;
        Ok(disk.f_blocks.saturating_mul(disk.f_frsize))
    }

    /// Opens the file that a path leads to, following links that stay beneath the workspace.
    pub(super) fn resolve(&self, path: &RelativePath, flags: OFlags) -> Result<OwnedFd, FileError> {
        self.open_beneath(path.as_kernel().as_bytes(), flags, ResolveFlags::BENEATH)
            .map_err(FileError::kernel("open the path"))
    }

    /// Opens raw path bytes without following any link; for walks.
    pub(super) fn open_plain(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        self.open_beneath(path, flags | OFlags::NOFOLLOW, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
    }

    fn open_beneath(&self, path: &[u8], flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
        // BENEATH implies it today; openat2(2) asks callers not to rely on that.
        let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
        let mut tries = TRIES;
        loop {
            match openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) if tries > 0 => tries -= 1,
                result => return result,
            }
        }
    }

    /// Opens the directory of a path's last name and returns that name. Refuses the workspace itself, which has neither.
    pub(super) fn parent<'a>(&self, path: &'a RelativePath) -> Result<(OwnedFd, &'a str), FileError> {
        let (parent, name) =
            path.split().ok_or(FileError::BadRequest("the workspace itself can't be changed"))?;
        Ok((self.resolve(&parent, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    /// As `parent`, making directories that are missing.
    pub(super) fn make_parent<'a>(&self, path: &'a RelativePath) -> Result<(OwnedFd, &'a str), FileError> {
        match self.parent(path) {
            Err(FileError::Kernel { errno: Errno::NOENT, .. }) => {}
            result => return result,
        }
        if let Some((parent, _)) = path.split() {
            self.make_directories(&parent)?;
        }
        self.parent(path)
    }

    /// Makes a directory and its ancestors; those that exist stay as they are.
    pub(super) fn make_directories(&self, path: &RelativePath) -> Result<(), FileError> {
        for prefix in path.prefixes() {
            let (parent, name) = self.parent(&prefix)?;
            match mkdirat(parent, name, DIRECTORY_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(FileError::Kernel { what: "make the directory", errno }),
            }
        }
        // A file, or a link that leads elsewhere, may be in the way.
        self.resolve(path, OFlags::PATH | OFlags::DIRECTORY).map(drop)
    }

    /// Returns metadata of a path. A link at its end is described, not followed.
    pub(super) fn stat(&self, path: &RelativePath) -> Result<FileStat, FileError> {
        if path.split().is_none() {
            return stat_of(&self.root);
        }
        let (parent, name) = self.parent(path)?;
        stat_at(parent.as_fd(), name).map_err(FileError::kernel("look at the path"))
    }
}

/// Returns metadata of an open file.
pub(super) fn stat_of(file: impl AsFd) -> Result<FileStat, FileError> {
    Ok(describe(&fstat(file).map_err(FileError::kernel("look at the file"))?, None))
}

/// Returns metadata of a name in a directory, without following a link.
pub(super) fn stat_at<P: rustix::path::Arg + Copy>(
    directory: BorrowedFd<'_>,
    name: P,
) -> Result<FileStat, Errno> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let target = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Some(show(readlinkat(directory, name, Vec::new())?.as_bytes())),
        _ => None,
    };
    Ok(describe(&stat, target))
}

fn describe(stat: &Stat, target: Option<String>) -> FileStat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    let milliseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0) / 1_000_000;
    FileStat {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o777,
        modified_ms: stat.st_mtime.saturating_mul(1000).saturating_add(milliseconds),
        target,
    }
}
