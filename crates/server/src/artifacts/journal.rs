//! The journal of a task in its download: a file with one line of JSON for each entry.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use sandyard_protocol::EntryKind;
use tokio::sync::mpsc;

use super::ArtifactError;
use super::archive::ArchivePart;
use super::names::EntryNames;
use crate::store::Store;

/// Name of the journal among the host's files.
const JOURNAL_NAME: &str = "journal.jsonl";
/// Entries read from the store at once.
const PAGE_ENTRIES: usize = 256;
/// Bytes read from the store at once.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The journal of one job, to be added to its download.
pub(crate) struct JournalLines {
    pub(crate) store: Arc<dyn Store>,
    /// The job's number in the store.
    pub(crate) job: i64,
    /// Modification time of the file, in milliseconds since the epoch.
    pub(crate) at_ms: i64,
}

impl JournalLines {
    /// Adds the file to the archive, under a name that the job does not use.
    pub(super) async fn send(
        self,
        names: &mut EntryNames,
        parts: &mpsc::Sender<ArchivePart>,
    ) -> Result<(), ArtifactError> {
        let closed = |_| ArtifactError::Write(io::Error::from(io::ErrorKind::BrokenPipe));
        let head = ArchivePart::Entry {
            name: names.beside(JOURNAL_NAME),
            kind: EntryKind::File,
            mode: 0o644,
            size: 0,
            modified_ms: self.at_ms,
            target: String::new(),
        };
        parts.send(head).await.map_err(closed)?;
        let mut next = 1;
        loop {
            let page = self.store.journal(self.job, next, PAGE_ENTRIES, PAGE_BYTES).await;
            let page = page.map_err(|error| ArtifactError::Write(io::Error::other(error)))?;
            let Some(last) = page.last().map(|row| row.number) else { return Ok(()) };
            for row in &page {
                let mut line = serde_json::to_vec(row).map_err(|error| ArtifactError::Write(error.into()))?;
                line.push(b'\n');
                parts.send(ArchivePart::Bytes(Bytes::from(line))).await.map_err(closed)?;
            }
            next = last + 1;
        }
    }
}
