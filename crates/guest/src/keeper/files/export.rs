//! Export: the workspace as a stream of entries, for the host to check and archive.
//!
//! Depth first in sorted order, links as links, hard links as files. Each file is announced with its size and followed by
//! exactly that many bytes, whatever the job does to it meanwhile. Entries that can't be read are listed at the end, and so are
//! files that would make the export larger than the disk: holes are read as zeros, and a file has as many copies as names.

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
use super::walk::{TreeWalk, WalkEntry};
use super::wire::WorkerWire;
use super::workspace::{Workspace, stat_of};
use crate::limits::SKIPPED_PATHS;

/// Serves `Export`. An entry that can't be read is reported at the end and does not stop the export.
pub(super) fn export(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::Export { path } = request else { return Err(FileError::BadRequest("not an export")) };
    let mut walk = TreeWalk::new(workspace, RelativePath::parse(path)?.as_str().as_bytes())?;
    wire.send_message(&Reply::Done)?;
    let mut report = ExportReport::default();
    let mut room = workspace.disk_bytes()?;
    while let Some(found) = walk.next() {
        match visit(workspace, wire, &mut walk, &mut room, &found) {
            Ok(ExportVisit::Sent) => report.entries += 1,
            Ok(ExportVisit::Left(reason)) => report.skip(&found.shown, reason),
            Ok(ExportVisit::Unreadable(reason)) => {
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

/// The outcome of one entry.
enum ExportVisit {
    Sent,
    /// The entry was sent, but not its content.
    Unreadable(&'static str),
    /// The entry was left out, with the reason.
    Left(&'static str),
}

#[derive(Default)]
struct ExportReport {
    entries: u64,
    skipped: Vec<String>,
    skipped_bytes: usize,
}

impl ExportReport {
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
    wire: &mut WorkerWire<'_>,
    walk: &mut TreeWalk<'_>,
    room: &mut u64,
    found: &WalkEntry,
) -> Result<ExportVisit, FileError> {
    if let Some(reason) = found.obstacle {
        return Ok(ExportVisit::Left(reason));
    }
    let kernel = FileError::kernel("look at the entry");
    let handle = workspace.open_plain(&found.raw, OFlags::PATH).map_err(kernel)?;
    let stat = stat_of(&handle)?;
    match stat.kind {
        EntryKind::File => send_file(workspace, wire, room, found),
        EntryKind::Directory => {
            announce(wire, found, &stat, 0, None)?;
            match walk.enter(found.raw.clone(), found.shown.clone()) {
                Ok(()) => Ok(ExportVisit::Sent),
                Err(_) => Ok(ExportVisit::Unreadable("the directory can't be read")),
            }
        }
        EntryKind::Symlink => send_link(wire, found, &handle),
        EntryKind::Other => Ok(ExportVisit::Left("a socket, pipe or device")),
    }
}

fn send_file(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    room: &mut u64,
    found: &WalkEntry,
) -> Result<ExportVisit, FileError> {
    let file = workspace.open_plain(&found.raw, READ).map_err(FileError::kernel("open the file"))?;
    // Asked of the open file: the name may mean something else by now.
    let stat = stat_of(&file)?;
    if stat.kind != EntryKind::File {
        return Ok(ExportVisit::Left("it changed meanwhile"));
    }
    let Some(left) = room.checked_sub(stat.size) else {
        return Ok(ExportVisit::Left("with its holes and copies the workspace is larger than its disk"));
    };
    *room = left;
    announce(wire, found, &stat, stat.size, None)?;
    send_exactly(&File::from(file), 0, stat.size, wire)?;
    Ok(ExportVisit::Sent)
}

fn send_link(
    wire: &mut WorkerWire<'_>,
    found: &WalkEntry,
    handle: &OwnedFd,
) -> Result<ExportVisit, FileError> {
    let kernel = FileError::kernel("read the link");
    let target = rustix::fs::readlinkat(handle, "", Vec::new()).map_err(kernel)?;
    let target = show(target.as_bytes());
    if target.len() > SYMLINK_BYTES {
        return Ok(ExportVisit::Left("the link's target is too long"));
    }
    announce(wire, found, &stat_of(handle.as_fd())?, 0, Some(target))?;
    Ok(ExportVisit::Sent)
}

fn announce(
    wire: &mut WorkerWire<'_>,
    found: &WalkEntry,
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
