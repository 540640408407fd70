//! The list of what an archive holds: a line for each entry, with the hash of what was written.
//!
//! It is gathered in a file without a name beside the archive: a workspace may have more entries than memory should hold.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sandyard_protocol::EntryKind;
use sha2::{Digest, Sha256};

use crate::audit::manifest_line;
use crate::disk;

/// What a list says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Of the list, in hexadecimal.
    pub(crate) sha256: String,
    pub(crate) entries: u64,
    /// Of the files in it.
    pub(crate) bytes: u64,
}

/// A list that grows.
pub(super) struct Manifest {
    lines: BufWriter<File>,
    hasher: Sha256,
    length: u64,
    entries: u64,
    bytes: u64,
    open: Option<Open>,
}

/// The entry whose bytes are coming.
struct Open {
    name: String,
    kind: &'static str,
    mode: u32,
    size: u64,
    hasher: Sha256,
}

impl Manifest {
    /// An empty one.
    pub(super) fn beside(archive: &Path) -> io::Result<Self> {
        let path = archive.with_extension("list");
        let file = disk::new_file(&path)?;
        std::fs::remove_file(&path)?;
        let (lines, hasher) = (BufWriter::new(file), Sha256::new());
        Ok(Self { lines, hasher, length: 0, entries: 0, bytes: 0, open: None })
    }

    /// A new entry; the one before is whole.
    pub(super) fn entry(&mut self, name: &str, kind: EntryKind, mode: u32, target: &str) -> io::Result<()> {
        self.close()?;
        let (kind, mode) = match kind {
            EntryKind::Directory => ("directory", mode),
            // An archive gives every link the same bits, whatever the file system says.
            EntryKind::Symlink => ("symlink", 0o777),
            EntryKind::File | EntryKind::Other => ("file", mode),
        };
        let mut open = Open { name: name.to_owned(), kind, mode, size: 0, hasher: Sha256::new() };
        if kind == "symlink" {
            open.hasher.update(target.as_bytes());
            open.size = target.len() as u64;
        }
        self.open = Some(open);
        Ok(())
    }

    /// Bytes of the present entry.
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

    /// Bytes of the list so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Writes the whole of it.
    pub(super) fn write(&mut self, target: &mut impl Write) -> io::Result<Listed> {
        self.close()?;
        self.lines.flush()?;
        let mut file = self.lines.get_ref();
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut file.take(self.length), target)?;
        let sha256 = self.hasher.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Listed { sha256, entries: self.entries, bytes: self.bytes })
    }
}
