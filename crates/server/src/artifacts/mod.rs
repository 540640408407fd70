//! Artifacts: the zip of a workspace, written by the host from the entries a guest reports.
//!
//! This file carries entries from the guest to `archive`, which writes the zip into a scratch file on a thread of its own;
//! `names` checks the name of each entry. The caller stores the finished file as a blob and commits its hash last.

mod archive;
mod audit;
mod explanation;
mod journal;
mod limits;
mod manifest;
mod names;

use std::io;

use bytes::Bytes;
use sandyard_protocol::EntryKind;
use sandyard_sandbox::machine::{Export, MachineError};
use tokio::sync::mpsc;

use self::archive::{ArchivePart, ArchiveWriter};
use self::names::EntryNames;
use crate::blobs::{BlobError, Scratch, ScratchFile};
use crate::job::ArtifactRow;

pub(crate) use audit::{AuditLines, pack_audit};
pub(crate) use explanation::StoredExplanation;
pub(crate) use journal::JournalLines;
pub use limits::ExportConfig;
pub(crate) use limits::expected_bytes;

/// Parts between guest and disk: at most 1 MiB of data in memory.
const QUEUED_PARTS: usize = 16;

/// Name of the list of files in an archive of an empty folder, which has no other entry.
const EMPTY_LIST_NAME: &str = "files.jsonl";

/// Skipped entries that are reported by name.
const MAX_SKIPPED: usize = 100;

/// An artifact could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtifactError {
    /// The guest went away or broke the protocol.
    #[error("read the workspace")]
    Guest(#[from] MachineError),
    /// The workspace exceeds a bound.
    #[error("the workspace is larger than an artifact may be ({0})")]
    TooLarge(&'static str),
    /// The scratch file could not be written.
    #[error("write the archive")]
    Write(#[source] io::Error),
    /// The finished archive could not be stored.
    #[error("store the archive")]
    Store(#[from] BlobError),
    /// The export took too long; the limit in seconds.
    #[error("the export took longer than {0} s")]
    Deadline(u64),
}

/// A finished archive in a scratch file, which nothing refers to yet.
#[derive(Debug)]
pub(crate) struct PackedExport {
    pub(crate) artifact: ArtifactRow,
    /// Entries that were left out, with the reason. At most [`MAX_SKIPPED`].
    pub(crate) skipped: Vec<String>,
    pub(crate) file: ScratchFile,
}

/// A file that the host adds to an artifact.
#[derive(Debug, Clone)]
pub(crate) struct HostFile {
    /// Name at the top level. If the job has an entry of that name, a number is put before the ending.
    pub(crate) name: &'static str,
    pub(crate) bytes: Bytes,
}

/// The entries that the host adds behind the job's own.
#[derive(Default)]
pub(crate) struct HostAdditions<'a> {
    /// The journal of a task.
    pub(crate) journal: Option<JournalLines>,
    /// The audit of the job.
    pub(crate) audit: Option<AuditLines>,
    /// Files whose content is in memory.
    pub(crate) files: &'a [HostFile],
}

/// Writes an export and the host's additions as a zip into a scratch file.
pub(crate) async fn pack_export(
    export: Export,
    scratch: &Scratch,
    bounds: &ExportConfig,
    additions: HostAdditions<'_>,
) -> Result<PackedExport, ArtifactError> {
    let deadline = bounds.timeout;
    match tokio::time::timeout(deadline, carry(export, scratch, bounds, additions)).await {
        Ok(result) => result,
        Err(_) => Err(ArtifactError::Deadline(deadline.as_secs())),
    }
}

async fn carry(
    mut export: Export,
    scratch: &Scratch,
    bounds: &ExportConfig,
    additions: HostAdditions<'_>,
) -> Result<PackedExport, ArtifactError> {
    let (parts, receiver) = mpsc::channel(QUEUED_PARTS);
    let scratch = scratch.clone();
    let most_bytes = bounds.archive_bytes;
    let writer = tokio::task::spawn_blocking(move || ArchiveWriter::write(&scratch, receiver, most_bytes));
    let carried = send_parts(&mut export, &parts, bounds, additions).await;
    drop(parts);
    // Without an end part, the writer throws the archive away.
    let written = writer.await.map_err(|error| ArtifactError::Write(io::Error::other(error)))?;
    match (carried, written) {
        (Ok(mut skipped), Ok((artifact, file))) => {
            skipped.extend(export.skipped().iter().cloned());
            skipped.truncate(MAX_SKIPPED);
            Ok(PackedExport { artifact, skipped, file })
        }
        // A writer that failed closes the channel, and then the carrier fails too: the writer's error is the cause.
        (Ok(_) | Err(ArtifactError::Write(_)), Err(error)) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(ArtifactError::TooLarge("archive"))
        }
        (Ok(_) | Err(ArtifactError::Write(_)), Err(error)) => Err(ArtifactError::Write(error)),
        (Err(error), _) => Err(error),
    }
}

async fn send_parts(
    export: &mut Export,
    parts: &mpsc::Sender<ArchivePart>,
    bounds: &ExportConfig,
    additions: HostAdditions<'_>,
) -> Result<Vec<String>, ArtifactError> {
    let closed = |_| ArtifactError::Write(io::Error::from(io::ErrorKind::BrokenPipe));
    let (mut entries, mut bytes, mut name_bytes) = (0u64, 0u64, 0u64);
    let mut names = EntryNames::default();
    let mut skipped = Vec::new();
    let adds_nothing = additions.files.is_empty() && additions.journal.is_none() && additions.audit.is_none();
    while let Some(entry) = export.next_entry().await? {
        entries += 1;
        bytes = bytes.saturating_add(entry.size);
        name_bytes = name_bytes.saturating_add(entry.path.len() as u64);
        // Checked for each entry, before its bytes: the guest may announce any size and any number of entries.
        if entries > bounds.entries {
            return Err(ArtifactError::TooLarge("entries"));
        }
        if name_bytes > bounds.name_bytes {
            return Err(ArtifactError::TooLarge("names"));
        }
        if bytes > bounds.bytes {
            return Err(ArtifactError::TooLarge("bytes"));
        }
        // A name that is unsafe to unpack leaves out its entry, not the whole artifact.
        let name = match names.accept(&entry.path, entry.kind) {
            Ok(name) => name,
            Err(refused) => {
                if skipped.len() < MAX_SKIPPED {
                    skipped.push(format!("{}: {refused}", entry.path.escape_debug()));
                }
                continue;
            }
        };
        let is_file = entry.kind == EntryKind::File;
        parts.send(ArchivePart::entry(name, &entry)).await.map_err(closed)?;
        while is_file && let Some(piece) = export.next_bytes().await? {
            parts.send(ArchivePart::Bytes(piece)).await.map_err(closed)?;
        }
    }
    for file in additions.files {
        let name = names.free(file.name);
        parts.send(ArchivePart::host_file(name, file)).await.map_err(closed)?;
        parts.send(ArchivePart::Bytes(file.bytes.clone())).await.map_err(closed)?;
    }
    if let Some(journal) = additions.journal {
        journal.send(&mut names, parts).await?;
    }
    // Last: the audit lists all other entries, and `verify_zip` looks for it at the end.
    if let Some(audit) = additions.audit {
        audit.send(&mut names, parts).await?;
    }
    if entries == 0 && adds_nothing {
        // Programs take a zip without any entry for a broken one.
        let (answer, _) = tokio::sync::oneshot::channel();
        let list = ArchivePart::List { name: EMPTY_LIST_NAME.to_owned(), modified_ms: 0, answer };
        parts.send(list).await.map_err(closed)?;
    }
    parts.send(ArchivePart::End).await.map_err(closed)?;
    Ok(skipped)
}
