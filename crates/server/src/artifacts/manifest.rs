//! The list of the entries in an archive: a line for each, with the hash of its bytes.
//!
//! The lines are collected in a scratch file, because a workspace may have more entries than memory should hold.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use sandyard_protocol::EntryKind;
use sha2::{Digest, Sha256};

use crate::audit::manifest_line;

/// The figures of a finished list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManifestSummary {
    /// SHA-256 of the list, in hexadecimal.
    pub(crate) sha256: String,
    pub(crate) entries: u64,
    /// Uncompressed bytes of all entries.
    pub(crate) bytes: u64,
}

/// A list that is being collected.
pub(super) struct ArchiveManifest {
    lines: BufWriter<File>,
    hasher: Sha256,
    length: u64,
    entries: u64,
    bytes: u64,
    open: Option<OpenEntry>,
}

/// The entry whose bytes are coming.
struct OpenEntry {
    name: String,
    kind: &'static str,
    mode: u32,
    size: u64,
    hasher: Sha256,
}

impl ArchiveManifest {
    /// An empty list, collected in this empty file.
    pub(super) fn new(file: File) -> Self {
        let (lines, hasher) = (BufWriter::new(file), Sha256::new());
        Self { lines, hasher, length: 0, entries: 0, bytes: 0, open: None }
    }

    /// Begins an entry and ends the one before.
    pub(super) fn entry(&mut self, name: &str, kind: EntryKind, mode: u32, target: &str) -> io::Result<()> {
        self.close()?;
        let (kind, mode) = match kind {
            EntryKind::Directory => ("directory", mode),
            // An archive gives every link the same bits, whatever the file system says.
            EntryKind::Symlink => ("symlink", 0o777),
            EntryKind::File | EntryKind::Other => ("file", mode),
        };
        let mut open = OpenEntry { name: name.to_owned(), kind, mode, size: 0, hasher: Sha256::new() };
        if kind == "symlink" {
            open.hasher.update(target.as_bytes());
            open.size = target.len() as u64;
        }
        self.open = Some(open);
        Ok(())
    }

    /// Adds bytes to the entry that was begun last.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if let Some(open) = &mut self.open {
            open.hasher.update(bytes);
            open.size += bytes.len() as u64;
        }
    }

    fn close(&mut self) -> io::Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let mut line = manifest_line(&open.name, open.kind, open.mode, open.size, &open.hasher.finalize());
        line.push('\n');
        self.hasher.update(&line);
        self.length += line.len() as u64;
        self.entries += 1;
        self.bytes += open.size;
        self.lines.write_all(line.as_bytes())
    }

    /// Length of the list so far, in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Ends the list and writes it to `target`.
    pub(super) fn write(&mut self, target: &mut impl Write) -> io::Result<ManifestSummary> {
        self.close()?;
        // Before the file is read back: the last lines may still be in the buffer.
        self.lines.flush()?;
        let mut file = self.lines.get_ref();
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut file.take(self.length), target)?;
        let sha256 = hex::encode(self.hasher.clone().finalize());
        Ok(ManifestSummary { sha256, entries: self.entries, bytes: self.bytes })
    }
}
