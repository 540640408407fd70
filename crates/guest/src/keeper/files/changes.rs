//! Finds the changes in the workspace since the last look. Runs in a worker of its own, which remembers the state that it saw.
//!
//! A look stats entries, level by level, and compares inode, size and time of the last change (`ctime`, which a program can't
//! set) with the remembered ones; only entries that differ are read, and only small files. A look is bounded in entries and
//! time: entries that it did not reach stay as they were remembered, and the answer says that it is not complete.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, OFlags, Stat, statat};
use sandyard_protocol::{ChangedPath, WorkspaceChanges};
use sha2::{Digest, Sha256};

use super::error::FileError;
use super::look::READ;
use super::names::{names_after, show};
use super::workspace::Workspace;
use crate::limits::{
    CHANGES_ENTRIES, CHANGES_FILE_BYTES, CHANGES_HASHED_BYTES, CHANGES_PATH_BYTES, CHANGES_PATHS,
    CHANGES_TIME,
};

/// The remembered state of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last change.
    changed: (i64, i64),
    kind: FileType,
}

/// The workspace as it was seen last, by raw path.
#[derive(Debug, Default)]
pub(super) struct KnownFiles {
    entries: Option<BTreeMap<Vec<u8>, Stamp>>,
}

impl KnownFiles {
    /// Looks at the workspace, and remembers its state.
    pub(super) fn look(&mut self, workspace: &Workspace) -> Result<WorkspaceChanges, FileError> {
        let mut look = WorkspaceLook::new(workspace);
        look.walk()?;
        let first = self.entries.is_none();
        let before = self.entries.take().unwrap_or_default();
        let mut changes = WorkspaceChanges {
            entries: look.seen.len() as u64,
            complete: look.complete,
            first,
            ..WorkspaceChanges::default()
        };
        // A directory changes with every name in it; the names are reported instead.
        let differs = |path: &[u8], stamp: &Stamp| match before.get(path) {
            None => true,
            Some(old) => old != stamp && stamp.kind != FileType::Directory,
        };
        let mut differing: Vec<_> = look.seen.iter().filter(|(path, stamp)| differs(path, stamp)).collect();
        // A long list keeps the upper part of the tree, which people know.
        differing.sort_by_key(|(path, _)| path.iter().filter(|byte| **byte == b'/').count());
        for (path, stamp) in differing {
            if before.contains_key(path) {
                look.tell(path, stamp, &mut changes.changed, &mut changes.changed_count);
            } else {
                look.tell(path, stamp, &mut changes.added, &mut changes.added_count);
            }
        }
        let mut seen = look.seen;
        for (path, stamp) in
            before.into_iter().filter(|(path, _)| !seen.contains_key(path)).collect::<Vec<_>>()
        {
            // Only an entry whose directory was read whole, or is itself gone, counts as removed. Others may just not have been reached.
            if look.read.contains(parent(&path)) || !seen.contains_key(parent(&path)) && look.complete {
                changes.removed_count += 1;
                if changes.removed.len() < CHANGES_PATHS {
                    changes.removed.push(shown(&path));
                }
            } else {
                seen.insert(path, stamp);
            }
        }
        self.entries = Some(seen);
        Ok(changes)
    }
}

struct WorkspaceLook<'a> {
    workspace: &'a Workspace,
    began: Instant,
    seen: BTreeMap<Vec<u8>, Stamp>,
    /// Directories whose names were all seen.
    read: HashSet<Vec<u8>>,
    complete: bool,
    hashed: std::cell::Cell<u64>,
}

impl<'a> WorkspaceLook<'a> {
    fn new(workspace: &'a Workspace) -> Self {
        let (seen, read) = (BTreeMap::new(), HashSet::new());
        Self { workspace, began: Instant::now(), seen, read, complete: true, hashed: std::cell::Cell::new(0) }
    }

    /// Level by level, so that of a tree that is too large the upper part is seen.
    fn walk(&mut self) -> Result<(), FileError> {
        let mut waiting = VecDeque::from([Vec::new()]);
        while let Some(directory) = waiting.pop_front() {
            if self.is_over() {
                self.complete = false;
                break;
            }
            match self.read_directory(&directory, &mut waiting) {
                Ok(()) => {}
                Err(error) if directory.is_empty() => return Err(error),
                // Gone meanwhile, or closed to its owner: its entries are unknown.
                Err(_) => self.complete = false,
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.seen.len() >= CHANGES_ENTRIES || self.began.elapsed() > CHANGES_TIME
    }

    fn read_directory(&mut self, directory: &[u8], waiting: &mut VecDeque<Vec<u8>>) -> Result<(), FileError> {
        let path = if directory.is_empty() { b"." } else { directory };
        let opened = self
            .workspace
            .open_plain(path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(FileError::kernel("open the directory"))?;
        let names = names_after(&opened, None, CHANGES_ENTRIES.saturating_sub(self.seen.len()))?;
        for name in names.names {
            // Gone meanwhile.
            let Ok(stat) = statat(opened.as_fd(), name.raw.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let separator: &[u8] = if directory.is_empty() { b"" } else { b"/" };
            let path = [directory, separator, name.raw.as_bytes()].concat();
            let stamp = stamp(&stat);
            if stamp.kind == FileType::Directory {
                waiting.push_back(path.clone());
            }
            self.seen.insert(path, stamp);
        }
        if names.more {
            self.complete = false;
        } else {
            self.read.insert(directory.to_vec());
        }
        Ok(())
    }

    fn tell(&self, path: &[u8], stamp: &Stamp, list: &mut Vec<ChangedPath>, count: &mut u64) {
        *count += 1;
        if list.len() < CHANGES_PATHS {
            list.push(ChangedPath { path: shown(path), size: stamp.size, sha256: self.hash(path, stamp) });
        }
    }

    fn hash(&self, path: &[u8], stamp: &Stamp) -> Option<String> {
        let room = CHANGES_HASHED_BYTES.saturating_sub(self.hashed.get());
        let small = stamp.size <= CHANGES_FILE_BYTES.min(room);
        if stamp.kind != FileType::RegularFile || !small || self.began.elapsed() > 2 * CHANGES_TIME {
            return None;
        }
        let file = self.workspace.open_plain(path, READ).ok()?;
        let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).ok()?);
        // A file that grows meanwhile is another one at the next look.
        File::from(file).take(CHANGES_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        self.hashed.set(self.hashed.get() + bytes.len() as u64);
        Some(hex::encode(Sha256::digest(&bytes)))
    }
}

fn stamp(stat: &Stat) -> Stamp {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    // The width of the field differs between systems.
    let nanoseconds = i64::try_from(stat.st_ctime_nsec).unwrap_or(0);
    Stamp { inode: stat.st_ino, size, changed: (stat.st_ctime, nanoseconds), kind }
}

/// The directory a path is in; the workspace is the empty path.
fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |at| &path[..at])
}

fn shown(path: &[u8]) -> String {
    let mut text = show(path);
    text.truncate(text.floor_char_boundary(CHANGES_PATH_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn look(remembered: &mut KnownFiles, folder: &Path) -> WorkspaceChanges {
        remembered.look(&Workspace::open(folder).unwrap()).unwrap()
    }

    fn paths(changed: &[ChangedPath]) -> Vec<&str> {
        changed.iter().map(|changed| changed.path.as_str()).collect()
    }

    #[test]
    fn what_was_added_changed_and_removed_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let (root, mut remembered) = (folder.path(), KnownFiles::default());
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("d/a"), "one").unwrap();
        std::fs::write(root.join("b"), "two").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
        let changes = look(&mut remembered, root);
        assert_eq!(paths(&changes.added), ["b", "d", "link", "d/a"]);
        assert!(changes.first && changes.complete && changes.entries == 4);
        let sha256 = hex::encode(Sha256::digest("one"));
        assert_eq!(changes.added[3].sha256.as_deref(), Some(sha256.as_str()));
        assert_eq!(changes.added[2].sha256, None, "a link is not followed");
        assert!(look(&mut remembered, root).is_empty());
        // The same length, and the time of modification put back: the time of change tells.
        let modified = std::fs::metadata(root.join("b")).unwrap().modified().unwrap();
        std::fs::write(root.join("b"), "TWO").unwrap();
        File::options().write(true).open(root.join("b")).unwrap().set_modified(modified).unwrap();
        std::fs::remove_dir_all(root.join("d")).unwrap();
        let changes = look(&mut remembered, root);
        assert_eq!(
            (paths(&changes.changed), changes.removed),
            (vec!["b"], vec!["d".to_owned(), "d/a".to_owned()])
        );
        assert!(look(&mut remembered, root).is_empty());
    }

    #[test]
    fn lists_are_bounded_and_counts_are_not() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..CHANGES_PATHS + 50 {
            std::fs::write(folder.path().join(format!("f{number}")), "x").unwrap();
        }
        let changes = look(&mut KnownFiles::default(), folder.path());
        assert_eq!((changes.added.len(), changes.added_count), (CHANGES_PATHS, CHANGES_PATHS as u64 + 50));
    }

    #[test]
    fn a_tree_that_is_too_large_is_seen_from_the_top_and_nothing_of_it_is_told_as_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (root, mut remembered) = (folder.path(), KnownFiles::default());
        std::fs::create_dir(root.join("deep")).unwrap();
        for number in 0..CHANGES_ENTRIES {
            File::create(root.join(format!("deep/{number}"))).unwrap();
        }
        std::fs::write(root.join("top"), "x").unwrap();
        let changes = look(&mut remembered, root);
        assert!(!changes.complete && paths(&changes.added).contains(&"top"));
        std::fs::write(root.join("top"), "y").unwrap();
        let changes = look(&mut remembered, root);
        assert_eq!((paths(&changes.changed), changes.removed_count), (vec!["top"], 0));
    }

    #[test]
    fn a_large_file_is_told_without_a_hash() {
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join("large")).unwrap().set_len(CHANGES_FILE_BYTES + 1).unwrap();
        let changes = look(&mut KnownFiles::default(), folder.path());
        assert_eq!((changes.added[0].size, &changes.added[0].sha256), (CHANGES_FILE_BYTES + 1, &None));
    }
}
