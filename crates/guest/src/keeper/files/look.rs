//! Operations that change nothing: stat, list, read.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;
use rustix::io::Errno;
use sandyard_protocol::limits::{DATA_BYTES, LIST_ENTRIES, MESSAGE_BYTES};
use sandyard_protocol::{DirectoryEntry, EntryKind, Reply, Request};

use super::error::FileError;
use super::names::names_after;
use super::path::RelativePath;
use super::wire::WorkerWire;
use super::workspace::{Workspace, stat_at, stat_of};

/// Opens for reading without waiting for the other end of a named pipe.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Serves `Stat`. A symbolic link at the end of the path is not followed.
pub(super) fn stat(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::Stat { path } = request else { return Err(FileError::BadRequest("not a stat")) };
    reply_stat(workspace, wire, &RelativePath::parse(path)?)
}

/// A page of a directory, bounded by entries and by the size of a message.
pub(super) fn list(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::List { path, after } = request else { return Err(FileError::BadRequest("not a listing")) };
    let directory = workspace.resolve(&RelativePath::parse(path)?, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let page = names_after(&directory, after.as_deref(), LIST_ENTRIES)?;
    let mut more = page.more;
    let mut entries = Vec::new();
    // Half of a message: the rest is for the members around the entries.
    let mut room = MESSAGE_BYTES / 2;
    for name in page.names {
        let stat = match stat_at(directory.as_fd(), name.raw.as_c_str()) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(FileError::Kernel { what: "look at an entry", errno }),
        };
        let entry = DirectoryEntry { name: name.shown, stat };
        let size = serde_json::to_vec(&entry).map_or(usize::MAX, |json| json.len());
        if size > room && !entries.is_empty() {
            more = true;
            break;
        }
        room = room.saturating_sub(size);
        entries.push(entry);
    }
    wire.send_message(&Reply::Entries { entries, more })
}

/// A file's bytes, or a part of them.
pub(super) fn read(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::Read { path, range } = request else { return Err(FileError::BadRequest("not a read")) };
    let file = workspace.resolve(&RelativePath::parse(path)?, READ)?;
    let stat = stat_of(&file)?;
    match stat.kind {
        EntryKind::File => {}
        EntryKind::Directory => return Err(FileError::Kernel { what: "read the file", errno: Errno::ISDIR }),
        _ => return Err(FileError::BadRequest("not a regular file")),
    }
    let start = range.map_or(0, |range| range.start);
    let there = stat.size.saturating_sub(start);
    let length = range.and_then(|range| range.length).map_or(there, |length| length.min(there));
    wire.send_message(&Reply::Content { stat, length })?;
    send_exactly(&File::from(file), start, length, wire)
}

/// Sends `length` bytes, whatever becomes of the file meanwhile: missing bytes are zeros, added bytes are left out.
pub(super) fn send_exactly(
    file: &File,
    start: u64,
    length: u64,
    wire: &mut WorkerWire<'_>,
) -> Result<(), FileError> {
    let mut sent = 0;
    let mut shrunk = false;
    while sent < length {
        let most = usize::try_from(length - sent).unwrap_or(DATA_BYTES).min(DATA_BYTES);
        let payload = &mut wire.payload()[..most];
        let mut count = 0;
        if !shrunk {
            count = file.read_at(payload, start + sent).unwrap_or(0);
            shrunk = count == 0;
        }
        if shrunk {
            payload.fill(0);
            count = most;
        }
        wire.send_payload(count)?;
        sent += count as u64;
    }
    Ok(())
}

/// Answers with the facts about a path as it is now.
pub(super) fn reply_stat(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    path: &RelativePath,
) -> Result<(), FileError> {
    wire.send_message(&Reply::Stat(workspace.stat(path)?))
}
