//! Artifacts: the zip of a workspace, written by the host from the entries a guest reports.
//!
//! `names` decides what an entry may be called, `archive` writes the zip on a thread of its own, this file carries
//! entries from the guest to it. The file appears in its place only when it is whole and synced; its hash is committed last.

mod archive;
mod audit;
mod journal;
mod limits;
mod manifest;
mod names;

use std::io;
use std::path::Path;

use bytes::Bytes;
use sandyard_protocol::EntryKind;
use sandyard_sandbox::machine::{Export, MachineError};
use tokio::sync::mpsc;

use self::archive::{Archive, Part};
use self::names::Names;
use crate::job::ArtifactRow;

pub(crate) use archive::{EMPTY_ZIP, empty_sha256};
pub(crate) use audit::AuditLines;
pub(crate) use journal::JournalLines;
pub use limits::ExportConfig;

/// Parts between guest and disk: at most 1 MiB of data in memory.
const PARTS: usize = 16;

/// An artifact could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtifactError {
    /// The guest went away or broke the protocol.
    #[error("read the workspace")]
    Guest(#[from] MachineError),
    /// More than an artifact may hold.
    #[error("the workspace is larger than an artifact may be ({0})")]
    TooLarge(&'static str),
    /// The disk of the host refused.
    #[error("write the archive")]
    Write(#[source] io::Error),
    /// It took too long.
    #[error("the export took longer than {0} s")]
    Deadline(u64),
}

/// A finished artifact and what is missing from it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) artifact: ArtifactRow,
    pub(crate) skipped: Vec<String>,
}

/// A file that the host adds to an artifact.
#[derive(Debug, Clone)]
pub(crate) struct HostFile {
    /// At the top of the archive. If the job has something of that name, a number is put before its ending.
    pub(crate) name: &'static str,
    pub(crate) bytes: Bytes,
}

/// What the host adds to the job's own files.
#[derive(Default)]
pub(crate) struct Additions<'a> {
    /// The journal of a task.
    pub(crate) journal: Option<JournalLines>,
    /// The audit of the job.
    pub(crate) audit: Option<AuditLines>,
    /// Whole files.
    pub(crate) files: &'a [HostFile],
}

/// Takes an export and stores it as a zip at `path`, with what the host adds behind the job's own files.
pub(crate) async fn store_export(
    export: Export,
    path: &Path,
    bounds: &ExportConfig,
    additions: Additions<'_>,
) -> Result<Stored, ArtifactError> {
    let deadline = bounds.timeout;
    match tokio::time::timeout(deadline, carry(export, path, bounds, additions)).await {
        Ok(result) => result,
        Err(_) => Err(ArtifactError::Deadline(deadline.as_secs())),
    }
}

async fn carry(
    mut export: Export,
    path: &Path,
    bounds: &ExportConfig,
    additions: Additions<'_>,
) -> Result<Stored, ArtifactError> {
    let (parts, receiver) = mpsc::channel(PARTS);
    let target = path.to_owned();
    let writer = tokio::task::spawn_blocking(move || Archive::write(&target, receiver));
    let carried = send_parts(&mut export, &parts, bounds, additions).await;
    drop(parts);
    // An archive that has not been told its end is thrown away by the writer.
    let written = writer.await.map_err(|error| ArtifactError::Write(io::Error::other(error)))?;
    match (carried, written) {
        (Ok(mut skipped), Ok(artifact)) => {
            skipped.extend(export.skipped().iter().cloned());
            skipped.truncate(100);
            Ok(Stored { artifact, skipped })
        }
        // A writer that failed closes the channel, which the carrier notices too: the disk's error is the cause.
        (Ok(_) | Err(ArtifactError::Write(_)), Err(error)) => Err(ArtifactError::Write(error)),
        (Err(error), _) => Err(error),
    }
}

async fn send_parts(
    export: &mut Export,
    parts: &mpsc::Sender<Part>,
    bounds: &ExportConfig,
    additions: Additions<'_>,
) -> Result<Vec<String>, ArtifactError> {
    let closed = |_| ArtifactError::Write(io::Error::from(io::ErrorKind::BrokenPipe));
    let (mut entries, mut bytes, mut name_bytes) = (0u64, 0u64, 0u64);
    let mut names = Names::default();
    let mut skipped = Vec::new();
    while let Some(entry) = export.next_entry().await? {
        entries += 1;
        bytes = bytes.saturating_add(entry.size);
        name_bytes = name_bytes.saturating_add(entry.path.len() as u64);
        if entries > bounds.entries {
            return Err(ArtifactError::TooLarge("entries"));
        }
        if name_bytes > bounds.name_bytes {
            return Err(ArtifactError::TooLarge("names"));
        }
        if bytes > bounds.bytes {
            return Err(ArtifactError::TooLarge("bytes"));
        }
        let name = match names.accept(&entry.path, entry.kind) {
            Ok(name) => name,
            Err(refused) => {
                if skipped.len() < 100 {
                    skipped.push(format!("{}: {refused}", entry.path.escape_debug()));
                }
                continue;
            }
        };
        let is_file = entry.kind == EntryKind::File;
        parts.send(Part::entry(name, &entry)).await.map_err(closed)?;
        while is_file && let Some(piece) = export.next_bytes().await? {
            parts.send(Part::Bytes(piece)).await.map_err(closed)?;
        }
    }
    for file in additions.files {
        let name = names.free(file.name);
        parts.send(Part::host_file(name, file)).await.map_err(closed)?;
        parts.send(Part::Bytes(file.bytes.clone())).await.map_err(closed)?;
    }
    if let Some(journal) = additions.journal {
        journal.send(&mut names, parts).await?;
    }
    // Last, because it tells of all the others.
    if let Some(audit) = additions.audit {
        audit.send(&mut names, parts).await?;
    }
    parts.send(Part::End).await.map_err(closed)?;
    Ok(skipped)
}
