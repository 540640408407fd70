//! The audit of a job in its download: the list of its files, then, as the last entry, the records and their signed head.
//!
//! The record of the export is committed before the records are written, so that the chain in the store and the chain in
//! the download are the same.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use sandyard_protocol::EntryKind;
use tokio::sync::{mpsc, oneshot};

use super::archive::{ArchivePart, ArchiveWriter};
use super::names::EntryNames;
use super::{ArtifactError, QUEUED_PARTS};
use crate::audit::{AuditActor, AuditEntry, AuditFacts, ExportFacts};
use crate::blobs::{Scratch, ScratchFile};
use crate::job::audit_head;
use crate::job::{ArtifactRow, Change, JobFence, JobRow};
use crate::store::Store;
use crate::store::{AuditOf, audit_lines};

/// Name of the list among the host's files.
const LIST_NAME: &str = "files.jsonl";
/// Name of the records among the host's files.
const AUDIT_NAME: &str = "audit.jsonl";

/// The audit of one job, to be added to its download.
pub(crate) struct AuditLines {
    pub(crate) store: Arc<dyn Store>,
    /// The job's number in the store.
    pub(crate) job: i64,
    pub(crate) fence: JobFence,
    /// Modification time of both files, in milliseconds since the epoch.
    pub(crate) at_ms: i64,
}

impl AuditLines {
    /// Adds both files as the last entries of the archive, under names that the job does not use.
    pub(super) async fn send(
        self,
        names: &mut EntryNames,
        parts: &mpsc::Sender<ArchivePart>,
    ) -> Result<(), ArtifactError> {
        let failed = |error: crate::store::StoreError| ArtifactError::Write(io::Error::other(error));
        let (list, audit) = (names.beside(LIST_NAME), names.beside(AUDIT_NAME));
        let (answer, listed) = oneshot::channel();
        send(parts, ArchivePart::List { name: list.clone(), modified_ms: self.at_ms, answer }).await?;
        let listed = listed.await.map_err(|_| closed())?;
        let facts = ExportFacts {
            manifest: list,
            manifest_sha256: listed.sha256,
            entries: listed.entries,
            bytes: listed.bytes,
        };
        let export = Change::Audit(AuditEntry::new(AuditActor::Host, AuditFacts::Export(facts)));
        // Committed before it is written into the zip. A crash in between leaves a record of an export that was never stored,
        // and the next export adds its own.
        let row = self.store.commit(&self.fence, vec![export]).await.map_err(failed)?;
        let head = audit_head(&row).ok_or_else(closed)?;
        send(parts, self.file(audit)).await?;
        // Up to the head of that commit: records that are added meanwhile are not covered by its signature.
        let mut lines =
            Box::pin(audit_lines(Arc::clone(&self.store), AuditOf::Job(self.job), 1, head.records));
        while let Some(bytes) = lines.next().await {
            send(parts, ArchivePart::Bytes(bytes.map_err(failed)?)).await?;
        }
        send(parts, ArchivePart::Bytes(Bytes::from(format!("{}\n", head.line())))).await
    }

    fn file(&self, name: String) -> ArchivePart {
        let (kind, modified_ms) = (EntryKind::File, self.at_ms);
        ArchivePart::Entry { name, kind, mode: 0o644, size: 0, modified_ms, target: String::new() }
    }
}

/// Writes a zip whose only entry is the audit of a job that never ran, and so has no files.
pub(crate) async fn pack_audit(
    store: &Arc<dyn Store>,
    scratch: &Scratch,
    row: &JobRow,
) -> Result<(ArtifactRow, ScratchFile), ArtifactError> {
    let failed = |error: crate::store::StoreError| ArtifactError::Write(io::Error::other(error));
    let (parts, receiver) = mpsc::channel(QUEUED_PARTS);
    let scratch = scratch.clone();
    let writer = tokio::task::spawn_blocking(move || ArchiveWriter::write(&scratch, receiver, u64::MAX));
    let (kind, modified_ms) = (EntryKind::File, row.finished_ms.unwrap_or_default());
    let name = AUDIT_NAME.to_owned();
    let entry = ArchivePart::Entry { name, kind, mode: 0o644, size: 0, modified_ms, target: String::new() };
    send(&parts, entry).await?;
    // A job of an early release has no audit; its file is empty.
    if let Some(head) = audit_head(row) {
        let mut lines = Box::pin(audit_lines(Arc::clone(store), AuditOf::Job(row.number), 1, head.records));
        while let Some(bytes) = lines.next().await {
            send(&parts, ArchivePart::Bytes(bytes.map_err(failed)?)).await?;
        }
        send(&parts, ArchivePart::Bytes(Bytes::from(format!("{}\n", head.line())))).await?;
    }
    send(&parts, ArchivePart::End).await?;
    drop(parts);
    let written = writer.await.map_err(|error| ArtifactError::Write(io::Error::other(error)))?;
    written.map_err(ArtifactError::Write)
}

async fn send(parts: &mpsc::Sender<ArchivePart>, part: ArchivePart) -> Result<(), ArtifactError> {
    parts.send(part).await.map_err(|_| closed())
}

fn closed() -> ArtifactError {
    ArtifactError::Write(io::Error::from(io::ErrorKind::BrokenPipe))
}
