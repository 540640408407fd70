//! Writes one zip: modes, symbolic links, UTF-8 names, zip64 where needed; hashed once it is whole.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use sandyard_protocol::EntryKind;
use sandyard_sandbox::machine::ExportEntry;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::HostFile;
use super::manifest::{ArchiveManifest, ManifestSummary};
use crate::blobs::{Scratch, ScratchFile};
use crate::job::ArtifactRow;

/// Entries of at least this size are written as zip64. Below 4 GiB, because deflate may make an entry larger.
const ZIP64_BYTES: u64 = 0xf000_0000;
/// The fastest level: a workspace is packed once and often never fetched.
const DEFLATE_LEVEL: i64 = 1;

/// A message to the thread of the archive.
#[derive(Debug)]
pub(super) enum ArchivePart {
    /// Begins an entry. `Bytes` parts with its content follow if it is a file.
    Entry { name: String, kind: EntryKind, mode: u32, size: u64, modified_ms: i64, target: String },
    /// Bytes of the entry that was begun last.
    Bytes(Bytes),
    /// Writes the list of all entries so far as a file of this name, and answers its figures.
    List { name: String, modified_ms: i64, answer: oneshot::Sender<ManifestSummary> },
    /// The archive is whole. An archive without an end is thrown away.
    End,
}

impl ArchivePart {
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

/// Writes a zip into a scratch file.
pub(super) struct ArchiveWriter {
    zip: ZipWriter<BufWriter<BoundedFile>>,
    manifest: ArchiveManifest,
}

impl ArchiveWriter {
    /// Writes all parts into a scratch file and returns it; blocks. After a failure nothing is left.
    pub(super) fn write(
        scratch: &Scratch,
        mut parts: mpsc::Receiver<ArchivePart>,
        most_bytes: u64,
    ) -> io::Result<(ArtifactRow, ScratchFile)> {
        let result = Self::write_parts(scratch, &mut parts, most_bytes);
        // The sender must not wait for a reader that has failed.
        parts.close();
        result
    }

    fn write_parts(
        scratch: &Scratch,
        parts: &mut mpsc::Receiver<ArchivePart>,
        most_bytes: u64,
    ) -> io::Result<(ArtifactRow, ScratchFile)> {
        let file = scratch.file()?;
        let zip = ZipWriter::new(BufWriter::new(BoundedFile { file: file.handle()?, left: most_bytes }));
        let manifest = ArchiveManifest::new(scratch.file()?.into_unnamed());
        let mut archive = Self { zip, manifest };
        loop {
            match parts.blocking_recv() {
                Some(ArchivePart::End) => break,
                Some(part) => archive.add(part)?,
                None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            }
        }
        let buffered = archive.zip.finish().map_err(io::Error::from)?;
        let mut written = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((hash(&mut written.file)?, file))
    }

    fn add(&mut self, part: ArchivePart) -> io::Result<()> {
        match part {
            ArchivePart::Bytes(bytes) => {
                self.manifest.bytes(&bytes);
                self.zip.write_all(&bytes)
            }
            ArchivePart::Entry { name, kind, mode, size, modified_ms, target } => {
                self.manifest.entry(&name, kind, mode, &target)?;
                let options = SimpleFileOptions::default()
                    .compression_method(CompressionMethod::Deflated)
                    .compression_level(Some(DEFLATE_LEVEL))
                    // Without set-user-id and sticky bits: a person who unpacks the zip must not get a privileged file of the
                    // job's making.
                    .unix_permissions(mode & 0o777)
                    .last_modified_time(date(modified_ms))
                    .large_file(size >= ZIP64_BYTES);
                match kind {
                    EntryKind::Directory => self.zip.add_directory(name, options),
                    EntryKind::Symlink => self.zip.add_symlink(name, target, options),
                    EntryKind::File | EntryKind::Other => self.zip.start_file(name, options),
                }
                .map_err(io::Error::from)
            }
            ArchivePart::List { name, modified_ms, answer } => {
                let options = SimpleFileOptions::default()
                    .compression_method(CompressionMethod::Deflated)
                    .compression_level(Some(DEFLATE_LEVEL))
                    .unix_permissions(0o644)
                    .last_modified_time(date(modified_ms))
                    .large_file(self.manifest.length() >= ZIP64_BYTES);
                self.zip.start_file(name, options).map_err(io::Error::from)?;
                let listed = self.manifest.write(&mut self.zip)?;
                // The receiver may have given up; then the archive is thrown away.
                let _ = answer.send(listed);
                Ok(())
            }
            ArchivePart::End => Ok(()),
        }
    }
}

/// A file that takes a bounded number of bytes. Bytes that are written again count again; a zip writes a few headers twice.
struct BoundedFile {
    file: File,
    left: u64,
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = self.file.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for BoundedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
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
            return Ok(ArtifactRow { sha256: hex::encode(hasher.finalize()), bytes });
        }
        hasher.update(&buffer[..count]);
        bytes += count as u64;
    }
}

/// A zip can express the years 1980 to 2107; times outside become the first day of 1980.
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
