//! A walk through a tree: depth first, sorted, without following links, with bounded memory and no descriptor held.
//!
//! Each entry is opened by its whole path from the workspace, no link followed on the way, so a directory that is
//! swapped for a link meanwhile leads nowhere. Directories too large to sort in memory are read again for each batch.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use sandyard_protocol::limits::PATH_BYTES;

use super::error::FileError;
use super::names::{Name, names_after};
use super::workspace::Workspace;
use crate::limits::{FEWEST_SORTED_NAMES, SORTED_NAME_BYTES, SORTED_NAMES};

/// Yields a tree's entries; the caller chooses the directories to enter.
pub(super) struct TreeWalk<'a> {
    workspace: &'a Workspace,
    levels: Vec<WalkLevel>,
    name_bytes: usize,
}

struct WalkLevel {
    /// Path from the workspace, as the kernel knows it; ends in a slash unless empty.
    raw: Vec<u8>,
    /// Path from the start of the walk, as text.
    shown: String,
    /// Sorted backwards, so that the next is popped.
    names: Vec<Name>,
    more: bool,
    last: Option<String>,
}

/// One entry on the way.
pub(super) struct WalkEntry {
    /// Path from the start of the walk.
    pub(super) shown: String,
    /// Path from the workspace.
    pub(super) raw: Vec<u8>,
    /// The reason why it can't be visited.
    pub(super) obstacle: Option<&'static str>,
}

impl<'a> TreeWalk<'a> {
    /// Begins in a directory, given by its path as the kernel knows it (empty for the workspace).
    pub(super) fn new(workspace: &'a Workspace, start: &[u8]) -> Result<Self, FileError> {
        let mut walk = Self { workspace, levels: Vec::new(), name_bytes: 0 };
        walk.enter(start.to_vec(), String::new())?;
        Ok(walk)
    }

    /// Goes down into a directory that `next` yielded.
    pub(super) fn enter(&mut self, mut raw: Vec<u8>, mut shown: String) -> Result<(), FileError> {
        if !raw.is_empty() {
            raw.push(b'/');
        }
        if !shown.is_empty() {
            shown.push('/');
        }
        let mut level = WalkLevel { raw, shown, names: Vec::new(), more: true, last: None };
        self.fill(&mut level)?;
        self.levels.push(level);
        Ok(())
    }

    /// The next entry in order.
    pub(super) fn next(&mut self) -> Option<WalkEntry> {
        loop {
            let mut level = self.levels.pop()?;
            let Some(name) = level.names.pop() else {
                // A directory that can't be read again has no further entries.
                if level.more && self.fill(&mut level).is_ok() {
                    self.levels.push(level);
                }
                continue;
            };
            self.name_bytes = self.name_bytes.saturating_sub(name.bytes());
            let found = level.found(&name);
            level.last = Some(name.shown);
            self.levels.push(level);
            return Some(found);
        }
    }

    /// Takes the next names of a directory, as many as memory allows.
    fn fill(&mut self, level: &mut WalkLevel) -> Result<(), FileError> {
        // 512 is a generous size of one name in memory. All open levels share the bound, so depth can't multiply it.
        let room = SORTED_NAME_BYTES.saturating_sub(self.name_bytes) / 512;
        let count = room.clamp(FEWEST_SORTED_NAMES, SORTED_NAMES);
        let batch = names_after(self.open_directory(&level.raw)?, level.last.as_deref(), count)?;
        level.more = batch.more;
        level.names = batch.names;
        self.name_bytes += level.names.iter().map(Name::bytes).sum::<usize>();
        level.names.reverse();
        Ok(())
    }

    fn open_directory(&self, raw: &[u8]) -> Result<OwnedFd, FileError> {
        let path = if raw.is_empty() { b"." } else { raw };
        self.workspace
            .open_plain(path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(FileError::kernel("open the directory"))
    }
}

impl WalkLevel {
    fn found(&self, name: &Name) -> WalkEntry {
        let raw = [self.raw.as_slice(), name.raw.as_bytes()].concat();
        let shown = format!("{}{}", self.shown, name.shown);
        let obstacle = if raw.len() >= PATH_BYTES || shown.len() >= PATH_BYTES {
            Some("the path is too long")
        } else if self.last.as_deref() == Some(&name.shown) {
            // Sorted by how they are shown, then by their bytes: `%` is lower than what it stands for, so the plain name
            // came first.
            Some("another name reads the same")
        } else {
            None
        };
        WalkEntry { shown, raw, obstacle }
    }
}
