//! Artifacts: the zip of a workspace, written by the host from the entries a guest reports.
//!
//! `names` decides what an entry may be called, `archive` writes the zip on a thread of its own, this file carries
//! entries from the guest to it. The file appears in its place only when it is whole and synced; its hash is committed last.

mod archive;
mod journal;
mod names;

use std::io;
use std::path::Path;

use sandyard_protocol::EntryKind;
use sandyard_sandbox::machine::{Export, MachineError};
use tokio::sync::mpsc;

use self::archive::{Archive, Part};
use self::names::Names;
use crate::config::ExportConfig;
use crate::store::ArtifactRow;

pub(crate) use archive::{EMPTY_ZIP, empty_sha256};
pub(crate) use journal::JournalLines;

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

/// Takes an export and stores it as a zip at `path`, with the journal of a task beside the job's own files.
pub(crate) async fn store_export(
    export: Export,
    journal: Option<JournalLines>,
    path: &Path,
    bounds: &ExportConfig,
) -> Result<Stored, ArtifactError> {
    let deadline = bounds.timeout;
    match tokio::time::timeout(deadline, carry(export, journal, path, bounds)).await {
        Ok(result) => result,
        Err(_) => Err(ArtifactError::Deadline(deadline.as_secs())),
    }
}

async fn carry(
    mut export: Export,
    journal: Option<JournalLines>,
    path: &Path,
    bounds: &ExportConfig,
) -> Result<Stored, ArtifactError> {
    let (parts, receiver) = mpsc::channel(PARTS);
    let target = path.to_owned();
    let writer = tokio::task::spawn_blocking(move || Archive::write(&target, receiver));
    let carried = send_parts(&mut export, journal, &parts, bounds).await;
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
    journal: Option<JournalLines>,
    parts: &mpsc::Sender<Part>,
    bounds: &ExportConfig,
) -> Result<Vec<String>, ArtifactError> {
    let closed = |_| ArtifactError::Write(io::Error::from(io::ErrorKind::BrokenPipe));
    let (mut entries, mut bytes) = (0u64, 0u64);
    let mut names = Names::default();
    let mut skipped = Vec::new();
    while let Some(entry) = export.next_entry().await? {
        entries += 1;
        bytes = bytes.saturating_add(entry.size);
        if entries > bounds.entries {
            return Err(ArtifactError::TooLarge("entries"));
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
    if let Some(journal) = journal {
        journal.send(&mut names, parts).await?;
    }
    parts.send(Part::End).await.map_err(closed)?;
    Ok(skipped)
}
