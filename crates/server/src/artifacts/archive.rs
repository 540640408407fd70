//! Writes one zip: modes, links as links, UTF-8 names, zip64 where needed; hashed once it is whole.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use sandyard_protocol::EntryKind;
use sandyard_sandbox::machine::ExportEntry;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::HostFile;
use super::manifest::{Listed, Manifest};
use crate::disk;
use crate::job::ArtifactRow;

/// The whole of a zip without entries: its end record.
pub(crate) const EMPTY_ZIP: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// From here on an entry is written as zip64: deflate may make it larger than it was.
const LARGE_BYTES: u64 = 0xf000_0000;
/// Fast: a workspace is packed once and often never fetched.
const LEVEL: i64 = 1;

/// The hash of [`EMPTY_ZIP`].
pub(crate) fn empty_sha256() -> String {
    hexadecimal(&Sha256::digest(EMPTY_ZIP))
}

/// What the archive's thread is told, in order.
#[derive(Debug)]
pub(super) enum Part {
    /// A new entry.
    Entry { name: String, kind: EntryKind, mode: u32, size: u64, modified_ms: i64, target: String },
    /// Bytes of the present file.
    Bytes(Bytes),
    /// The list of all entries so far, as a file of this name; what it says of itself is answered.
    List { name: String, modified_ms: i64, answer: oneshot::Sender<Listed> },
    /// The archive is whole. Without it, it is thrown away.
    End,
}

impl Part {
    pub(super) fn entry(name: String, entry: &ExportEntry) -> Self {
        Self::Entry {
            name,
            kind: entry.kind,
            mode: entry.mode,
            size: entry.size,
            modified_ms: entry.modified_ms,
            target: entry.target.clone().unwrap_or_default(),
        }
    }

    pub(super) fn host_file(name: String, file: &HostFile) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::Entry {
            name,
            kind: EntryKind::File,
            mode: 0o644,
            size: file.bytes.len() as u64,
            modified_ms: i64::try_from(now.as_millis()).unwrap_or(0),
            target: String::new(),
        }
    }
}

/// A zip that is being written beside its place.
pub(super) struct Archive {
    zip: ZipWriter<BufWriter<File>>,
    manifest: Manifest,
}

impl Archive {
    /// Writes all parts and puts the file in its place; blocks.
    pub(super) fn write(path: &Path, mut parts: mpsc::Receiver<Part>) -> io::Result<ArtifactRow> {
        let temporary = path.with_extension("partial");
        let result = Self::write_beside(&temporary, &mut parts);
        // Whoever sends must not wait for a reader that has failed.
        parts.close();
        match result {
            Ok(artifact) => disk::place_durably(&temporary, path).map(|()| artifact),
            Err(error) => {
                let _ = std::fs::remove_file(&temporary);
                Err(error)
            }
        }
    }

    fn write_beside(temporary: &Path, parts: &mut mpsc::Receiver<Part>) -> io::Result<ArtifactRow> {
        let zip = ZipWriter::new(BufWriter::new(disk::new_file(temporary)?));
        let mut archive = Self { zip, manifest: Manifest::beside(temporary)? };
        loop {
            match parts.blocking_recv() {
                Some(Part::End) => break,
                Some(part) => archive.add(part)?,
                None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            }
        }
        let buffered = archive.zip.finish().map_err(io::Error::from)?;
        let mut file = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        hash(&mut file)
    }

    fn add(&mut self, part: Part) -> io::Result<()> {
        match part {
            Part::Bytes(bytes) => {
                self.manifest.bytes(&bytes);
                self.zip.write_all(&bytes)
            }
            Part::Entry { name, kind, mode, size, modified_ms, target } => {
                self.manifest.entry(&name, kind, mode, &target)?;
                let options = SimpleFileOptions::default()
                    .compression_method(CompressionMethod::Deflated)
                    .compression_level(Some(LEVEL))
                    .unix_permissions(mode & 0o777)
                    .last_modified_time(date(modified_ms))
                    .large_file(size >= LARGE_BYTES);
                match kind {
                    EntryKind::Directory => self.zip.add_directory(name, options),
                    EntryKind::Symlink => self.zip.add_symlink(name, target, options),
                    EntryKind::File | EntryKind::Other => self.zip.start_file(name, options),
                }
                .map_err(io::Error::from)
            }
            Part::List { name, modified_ms, answer } => {
                let options = SimpleFileOptions::default()
                    .compression_method(CompressionMethod::Deflated)
                    .compression_level(Some(LEVEL))
                    .unix_permissions(0o644)
                    .last_modified_time(date(modified_ms))
                    .large_file(self.manifest.length() >= LARGE_BYTES);
                self.zip.start_file(name, options).map_err(io::Error::from)?;
                let listed = self.manifest.write(&mut self.zip)?;
                // Whoever asked may have given up; then the archive is thrown away.
                let _ = answer.send(listed);
                Ok(())
            }
            Part::End => Ok(()),
        }
    }
}

fn hash(file: &mut File) -> io::Result<ArtifactRow> {
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    let mut bytes = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(ArtifactRow { sha256: hexadecimal(&hasher.finalize()), bytes });
        }
        hasher.update(&buffer[..count]);
        bytes += count as u64;
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A zip knows the years 1980 to 2107; what lies outside becomes its first day.
fn date(modified_ms: i64) -> DateTime {
    let Ok(at) = time::OffsetDateTime::from_unix_timestamp(modified_ms.div_euclid(1000)) else {
        return DateTime::default();
    };
    let year = u16::try_from(at.year()).unwrap_or(0);
    DateTime::from_date_and_time(year, u8::from(at.month()), at.day(), at.hour(), at.minute(), at.second())
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
