//! Operations that change names only: make a directory, move.

use rustix::fs::{RenameFlags, renameat_with};
use sandyard_protocol::Request;

use super::error::FileError;
use super::look::reply_stat;
use super::path::RelativePath;
use super::wire::WorkerWire;
use super::workspace::Workspace;

/// Makes a directory and its parents.
pub(super) fn make_directory(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
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
    wire: &mut WorkerWire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::Move { path, to } = request else { return Err(FileError::BadRequest("not a move")) };
    let (path, to) = (RelativePath::parse(path)?, RelativePath::parse(to)?);
    let (from_directory, from_name) = workspace.parent(&path)?;
    // The source is checked first, so that a move of a missing file does not leave new parents of the target behind.
    workspace.stat(&path)?;
    let (to_directory, to_name) = workspace.make_parent(&to)?;
    renameat_with(from_directory, from_name, to_directory, to_name, RenameFlags::NOREPLACE)
        .map_err(FileError::kernel("move"))?;
    reply_stat(workspace, wire, &to)
}
