//! Operations that change names only: make a directory, move.

use rustix::fs::{RenameFlags, renameat_with};
use sandyard_protocol::Request;

use super::error::FileError;
use super::path::RelativePath;
use super::wire::Wire;
use super::worker::reply_stat;
use super::workspace::Workspace;

/// Makes a directory and its parents.
pub(super) fn make_directory(
    workspace: &Workspace,
    wire: &mut Wire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::MakeDirectory { path } = request else {
        return Err(FileError::BadRequest("not a new directory"));
    };
    let path = RelativePath::parse(path)?;
    workspace.make_directories(&path)?;
    reply_stat(workspace, wire, &path)
}

/// Moves a file, link or directory to a name that is free.
pub(super) fn move_path(
    workspace: &Workspace,
    wire: &mut Wire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::Move { path, to } = request else { return Err(FileError::BadRequest("not a move")) };
    let (path, to) = (RelativePath::parse(path)?, RelativePath::parse(to)?);
    let (from_directory, from_name) = workspace.parent(&path)?;
    // Looked at first, so that a move from nowhere does not leave the target's parents behind.
    workspace.stat(&path)?;
    let (to_directory, to_name) = workspace.make_parent(&to)?;
    renameat_with(from_directory, from_name, to_directory, to_name, RenameFlags::NOREPLACE)
        .map_err(FileError::kernel("move"))?;
    reply_stat(workspace, wire, &to)
}
