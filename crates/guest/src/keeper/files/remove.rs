//! Removing a path, and a whole tree without following links, running out of descriptors or minding its modes.
//!
//! The tree is walked by descriptor. A directory deeper than a bound is first moved up to the top of the tree, so any
//! depth is removed with few descriptors.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, chmod, fchmod, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use sandyard_protocol::{Reply, Request};

use super::error::FileError;
use super::path::RelativePath;
use super::wire::WorkerWire;
use super::workspace::Workspace;
use super::write::hidden_name;
use crate::limits::REMOVE_DEPTH;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Passes over a tree that the job fills again meanwhile.
const PASSES: usize = 3;

/// Removes a file, a link, or a directory.
pub(super) fn remove(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::Remove { path, recursive } = request else {
        return Err(FileError::BadRequest("not a removal"));
    };
    let path = RelativePath::parse(path)?;
    let (parent, name) = workspace.parent(&path)?;
    let what = "remove";
    let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(FileError::kernel(what))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        unlinkat(&parent, name, AtFlags::empty()).map_err(FileError::kernel(what))?;
        return wire.send_message(&Reply::Done);
    }
    for _ in 0..if *recursive { PASSES } else { 0 } {
        empty_tree(open_directory(&parent, name).map_err(FileError::kernel(what))?)?;
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) => {}
            result => {
                return result
                    .map_err(FileError::kernel(what))
                    .and_then(|()| wire.send_message(&Reply::Done));
            }
        }
    }
    unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(FileError::kernel(what))?;
    wire.send_message(&Reply::Done)
}

/// One directory on the way down.
struct RemoveLevel {
    entries: Dir,
    directory: OwnedFd,
    name: Option<std::ffi::CString>,
}

impl RemoveLevel {
    fn new(directory: OwnedFd, name: Option<std::ffi::CString>) -> Result<Self, FileError> {
        let entries = Dir::read_from(&directory).map_err(FileError::kernel("read a directory"))?;
        Ok(Self { entries, directory, name })
    }
}

/// Removes all that is in a directory.
fn empty_tree(top: OwnedFd) -> Result<(), FileError> {
    let top_again =
        rustix::io::fcntl_dupfd_cloexec(&top, 0).map_err(FileError::kernel("hold the directory"))?;
    let mut levels = vec![RemoveLevel::new(top, None)?];
    let mut moved_up = false;
    while let Some(level) = levels.last_mut() {
        match level.entries.read() {
            Some(entry) => {
                let entry = entry.map_err(FileError::kernel("read a directory"))?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                if remove_plain(&level.directory, name)? {
                    continue;
                }
                if levels.len() >= REMOVE_DEPTH {
                    move_up(&levels, name, &top_again)?;
                    moved_up = true;
                } else {
                    let inner = open_directory(&levels[levels.len() - 1].directory, name)
                        .map_err(FileError::kernel("open a directory"))?;
                    levels.push(RemoveLevel::new(inner, Some(name.to_owned()))?);
                }
            }
            None => {
                let Some(done) = levels.pop() else { break };
                match (levels.last(), done.name) {
                    (Some(parent), Some(name)) => remove_directory(&parent.directory, &name)?,
                    _ if moved_up => {
                        moved_up = false;
                        levels.push(RemoveLevel::new(done.directory, None)?);
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

/// Removes anything but a directory; false if it is one.
fn remove_plain(directory: &OwnedFd, name: &CStr) -> Result<bool, FileError> {
    match with_rights(directory, || unlinkat(directory, name, AtFlags::empty())) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(errno) => Err(FileError::Kernel { what: "remove a file", errno }),
    }
}

fn remove_directory(parent: &OwnedFd, name: &CStr) -> Result<(), FileError> {
    match with_rights(parent, || unlinkat(parent, name, AtFlags::REMOVEDIR)) {
        // The next pass finds entries that were added meanwhile.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => Ok(()),
        Err(errno) => Err(FileError::Kernel { what: "remove a directory", errno }),
    }
}

fn move_up(levels: &[RemoveLevel], name: &CStr, top: &OwnedFd) -> Result<(), FileError> {
    let Some(level) = levels.last() else { return Ok(()) };
    let hidden = hidden_name()?;
    // Moving a directory changes its `..`, so the directory itself must be writable.
    let rename = || renameat(&level.directory, name, top, hidden.as_str());
    with_rights(&level.directory, rename).map_err(FileError::kernel("move a deep directory up"))
}

/// Tries again with write permission on the directory if its mode forbade the first try.
fn with_rights<T>(directory: &OwnedFd, mut act: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match act() {
        Err(Errno::ACCESS) => {
            fchmod(directory, Mode::RWXU)?;
            act()
        }
        result => result,
    }
}

/// Opens a directory without following a link, giving its owner back the rights that its mode denies.
fn open_directory<P: rustix::path::Arg + Copy>(parent: &OwnedFd, name: P) -> Result<OwnedFd, Errno> {
    match openat(parent, name, DIRECTORY, Mode::empty()) {
        Err(Errno::ACCESS) => {}
        result => return result,
    }
    let handle = openat(parent, name, OFlags::PATH | DIRECTORY, Mode::empty())?;
    // chmod by name would follow a link that took the directory's place; the descriptor can't change.
    chmod(format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd()).as_str(), Mode::RWXU)?;
    openat(parent, name, DIRECTORY, Mode::empty())
}
