//! Replaces a file that keeper wrote, and no other: the worker's part (`replace_client` is keeper's).
//!
//! A file is keeper's if it is unchanged since keeper wrote it: same inode, same length, same modification time. The new file
//! takes its place by an exchange of names. Then the old file is checked again: if somebody changed it in between, the names are
//! exchanged back. So nothing that somebody else wrote is ever lost, and no link is followed.

use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use sandyard_protocol::{GuestError, GuestErrorCode};
use serde::{Deserialize, Serialize};

use super::error::FileError;
use super::path::RelativePath;
use super::wire::WorkerWire;
use super::workspace::Workspace;
use super::write::NewFile;

/// Identifies a file as unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::keeper) struct Identity {
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

/// A request of keeper's own to a worker. The host can't send it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::keeper) struct Replace {
    /// Path of the file.
    pub(in crate::keeper) replace: String,
    /// Length in bytes of the new content, which follows in data frames.
    pub(in crate::keeper) size: u64,
    /// The file that may be replaced; `None` if there must be no file.
    pub(in crate::keeper) expected: Option<Identity>,
}

/// The outcome of a [`Replace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::keeper) enum Replaced {
    /// The new file is in place.
    Written(Identity),
    /// Another file has the name, and stays.
    Taken,
}

/// The worker's answer to a [`Replace`]: its outcome, or the reason why nothing was written.
pub(super) type ReplaceAnswer = Result<Replaced, GuestError>;

/// Receives the new content and puts it into place.
pub(super) fn replace(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    request: &Replace,
) -> Result<(), FileError> {
    let path = RelativePath::parse(&request.replace)?;
    let (directory, name) = workspace.parent(&path)?;
    let mut file = NewFile::create(directory)?;
    file.receive(wire, request.size)?;
    let (directory, hidden) = file.name_hidden()?;
    let placed = place(directory.as_fd(), &hidden, name, request.expected);
    // After an exchange the old file has this name, after a refusal the new one.
    let _ = unlinkat(&directory, hidden.as_str(), AtFlags::empty());
    let answer: ReplaceAnswer = Ok(placed?);
    wire.send_message(&answer)
}

fn place(
    directory: std::os::fd::BorrowedFd<'_>,
    hidden: &str,
    name: &str,
    expected: Option<Identity>,
) -> Result<Replaced, FileError> {
    let kernel = |what| FileError::kernel(what);
    match (identity(directory, name), expected) {
        (Err(Errno::NOENT), _) => match linkat(directory, hidden, directory, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(Replaced::Taken),
            Err(errno) => return Err(kernel("name the file")(errno)),
        },
        (Ok(there), Some(expected)) if there == expected => {
            let exchange = || renameat_with(directory, hidden, directory, name, RenameFlags::EXCHANGE);
            exchange().map_err(kernel("put the file into place"))?;
            // Somebody may have written to the old file between the look and the exchange.
            if identity(directory, hidden) != Ok(expected) {
                exchange().map_err(kernel("put the file back"))?;
                return Ok(Replaced::Taken);
            }
        }
        (Ok(_), _) => return Ok(Replaced::Taken),
        (Err(errno), _) => return Err(kernel("look at the path")(errno)),
    }
    identity(directory, name).map(Replaced::Written).map_err(kernel("look at the file"))
}

/// The identity of a directory entry, not following a link.
fn identity(directory: std::os::fd::BorrowedFd<'_>, name: &str) -> Result<Identity, Errno> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Identity {
        inode: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        seconds: stat.st_mtime,
        nanoseconds: i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
    })
}

/// Sends the worker's failure.
pub(super) fn refuse(wire: &mut WorkerWire<'_>, error: &FileError) -> Result<(), FileError> {
    let code = match error {
        FileError::Pipe(_) => GuestErrorCode::Internal,
        other => other.to_guest().code,
    };
    let answer: ReplaceAnswer = Err(GuestError::new(code, error.to_string()));
    wire.send_message(&answer)
}
