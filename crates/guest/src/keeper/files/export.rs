//! Export: the workspace as a stream of entries, for the host to check and archive.
//!
//! Depth first in sorted order, links as links, hard links as files. Each file is announced with its size and followed by
//! exactly that many bytes, whatever the job does to it meanwhile. What can't be read is named at the end, and so is what
//! would make the whole larger than the disk it is on: holes are read as zeros, and a file has as many copies as names.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use sandyard_protocol::limits::{MESSAGE_BYTES, SYMLINK_BYTES};
use sandyard_protocol::{EntryHeader, EntryKind, FileStat, Reply, Request};

use super::error::FileError;
use super::look::{READ, send_exactly};
use super::names::show;
use super::path::RelativePath;
use super::walk::{Found, Walk};
use super::wire::Wire;
use super::workspace::{Workspace, stat_of};
use crate::limits::SKIPPED_PATHS;

/// Streams a directory.
pub(super) fn export(workspace: &Workspace, wire: &mut Wire<'_>, request: &Request) -> Result<(), FileError> {
    let Request::Export { path } = request else { return Err(FileError::BadRequest("not an export")) };
    let mut walk = Walk::new(workspace, RelativePath::parse(path)?.as_str().as_bytes())?;
    wire.send_message(&Reply::Done)?;
    let mut report = Report::default();
    let mut room = workspace.disk_bytes()?;
    while let Some(found) = walk.next() {
        match visit(workspace, wire, &mut walk, &mut room, &found) {
            Ok(Visit::Sent) => report.entries += 1,
            Ok(Visit::Left(reason)) => report.skip(&found.shown, reason),
            Ok(Visit::Unreadable(reason)) => {
                report.entries += 1;
                report.skip(&found.shown, reason);
            }
            Err(FileError::Pipe(error)) => return Err(FileError::Pipe(error)),
            // Removed meanwhile: then it is not part of the workspace.
            Err(FileError::Kernel { errno: Errno::NOENT, .. }) => {}
            Err(error) => report.skip(&found.shown, &error.to_guest().message),
        }
    }
    wire.send_message(&EntryHeader::End { entries: report.entries, skipped: report.skipped })
}

/// What became of one entry.
enum Visit {
    /// It was sent.
    Sent,
    /// It was sent, but not what is in it.
    Unreadable(&'static str),
    /// It was left out.
    Left(&'static str),
}

#[derive(Default)]
struct Report {
    entries: u64,
    skipped: Vec<String>,
    skipped_bytes: usize,
}

impl Report {
    fn skip(&mut self, path: &str, reason: &str) {
        let line = format!("{path}: {reason}");
        // JSON may take six bytes for each.
        if self.skipped.len() < SKIPPED_PATHS && self.skipped_bytes + line.len() < MESSAGE_BYTES / 8 {
            self.skipped_bytes += line.len();
            self.skipped.push(line);
        }
    }
}

fn visit(
    workspace: &Workspace,
    wire: &mut Wire<'_>,
    walk: &mut Walk<'_>,
    room: &mut u64,
    found: &Found,
) -> Result<Visit, FileError> {
    if let Some(reason) = found.obstacle {
        return Ok(Visit::Left(reason));
    }
    let kernel = FileError::kernel("look at the entry");
    let handle = workspace.open_plain(&found.raw, OFlags::PATH).map_err(kernel)?;
    let stat = stat_of(&handle)?;
    match stat.kind {
        EntryKind::File => send_file(workspace, wire, room, found),
        EntryKind::Directory => {
            announce(wire, found, &stat, 0, None)?;
            match walk.enter(found.raw.clone(), found.shown.clone()) {
                Ok(()) => Ok(Visit::Sent),
                Err(_) => Ok(Visit::Unreadable("the directory can't be read")),
            }
        }
        EntryKind::Symlink => send_link(wire, found, &handle),
        EntryKind::Other => Ok(Visit::Left("a socket, pipe or device")),
    }
}

fn send_file(
    workspace: &Workspace,
    wire: &mut Wire<'_>,
    room: &mut u64,
    found: &Found,
) -> Result<Visit, FileError> {
    let file = workspace.open_plain(&found.raw, READ).map_err(FileError::kernel("open the file"))?;
    // Asked of the open file: the name may mean something else by now.
    let stat = stat_of(&file)?;
    if stat.kind != EntryKind::File {
        return Ok(Visit::Left("it changed meanwhile"));
    }
    let Some(left) = room.checked_sub(stat.size) else {
        return Ok(Visit::Left("with its holes and copies the workspace is larger than its disk"));
    };
    *room = left;
    announce(wire, found, &stat, stat.size, None)?;
    send_exactly(&File::from(file), 0, stat.size, wire)?;
    Ok(Visit::Sent)
}

fn send_link(wire: &mut Wire<'_>, found: &Found, handle: &OwnedFd) -> Result<Visit, FileError> {
    let kernel = FileError::kernel("read the link");
    let target = rustix::fs::readlinkat(handle, "", Vec::new()).map_err(kernel)?;
    let target = show(target.as_bytes());
    if target.len() > SYMLINK_BYTES {
        return Ok(Visit::Left("the link's target is too long"));
    }
    announce(wire, found, &stat_of(handle.as_fd())?, 0, Some(target))?;
    Ok(Visit::Sent)
}

fn announce(
    wire: &mut Wire<'_>,
    found: &Found,
    stat: &FileStat,
    size: u64,
    target: Option<String>,
) -> Result<(), FileError> {
    wire.send_message(&EntryHeader::Entry {
        path: found.shown.clone(),
        kind: stat.kind,
        mode: stat.mode,
        size,
        modified_ms: stat.modified_ms,
        target,
    })
}
