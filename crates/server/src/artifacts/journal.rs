//! The journal of a task in its download: one line of JSON for each entry, in a file of the host's own.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use sandyard_protocol::EntryKind;
use tokio::sync::mpsc;

use super::ArtifactError;
use super::archive::Part;
use super::names::Names;
use crate::store::Store;

/// Its name among the files of the host's.
const NAME: &str = "journal.jsonl";
/// Entries and bytes that are read at once.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The journal of the job with that number.
pub(crate) struct JournalLines {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) job: i64,
    /// When it was taken, in milliseconds since the epoch.
    pub(crate) at_ms: i64,
}

impl JournalLines {
    /// Writes it, beside what the job has made and never in its place.
    pub(super) async fn send(
        self,
        names: &mut Names,
        parts: &mpsc::Sender<Part>,
    ) -> Result<(), ArtifactError> {
        let closed = |_| ArtifactError::Write(io::Error::from(io::ErrorKind::BrokenPipe));
        let head = Part::Entry {
            name: names.beside(NAME),
            kind: EntryKind::File,
            mode: 0o644,
            size: 0,
            modified_ms: self.at_ms,
            target: String::new(),
        };
        parts.send(head).await.map_err(closed)?;
        let mut next = 1;
        loop {
            let page = self.store.journal(self.job, next, PAGE, PAGE_BYTES).await;
            let page = page.map_err(|error| ArtifactError::Write(io::Error::other(error)))?;
            let Some(last) = page.last().map(|row| row.number) else { return Ok(()) };
            for row in &page {
                let mut line = serde_json::to_vec(row).map_err(|error| ArtifactError::Write(error.into()))?;
                line.push(b'\n');
                parts.send(Part::Bytes(Bytes::from(line))).await.map_err(closed)?;
            }
            next = last + 1;
        }
    }
}
