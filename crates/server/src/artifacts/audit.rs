//! The audit of a job in its download: the list of its files, and behind everything else the records, the export's among
//! them, and their signed head.
//!
//! The record of the export is committed before it is written, so that the store's chain and the download's are the same.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use sandyard_protocol::EntryKind;
use tokio::sync::{mpsc, oneshot};

use super::ArtifactError;
use super::archive::Part;
use super::names::Names;
use crate::audit::{AuditActor, AuditEntry, AuditFacts, ExportFacts};
use crate::job::audit_head;
use crate::job::{Change, Fence};
use crate::store::Store;
use crate::store::audit_lines;

/// Their names among the files of the host's.
const LIST: &str = "files.jsonl";
const AUDIT: &str = "audit.jsonl";

/// The audit of the job with that number.
pub(crate) struct AuditLines {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) job: i64,
    pub(crate) fence: Fence,
    /// When it was taken, in milliseconds since the epoch.
    pub(crate) at_ms: i64,
}

impl AuditLines {
    /// Writes both, beside what the job has made and never in its place. They are the last entries of the archive.
    pub(super) async fn send(
        self,
        names: &mut Names,
        parts: &mpsc::Sender<Part>,
    ) -> Result<(), ArtifactError> {
        let failed = |error: crate::store::StoreError| ArtifactError::Write(io::Error::other(error));
        let (list, audit) = (names.beside(LIST), names.beside(AUDIT));
        let (answer, listed) = oneshot::channel();
        send(parts, Part::List { name: list.clone(), modified_ms: self.at_ms, answer }).await?;
        let listed = listed.await.map_err(|_| closed())?;
        let facts = ExportFacts {
            manifest: list,
            manifest_sha256: listed.sha256,
            entries: listed.entries,
            bytes: listed.bytes,
        };
        let export = Change::Audit(AuditEntry::new(AuditActor::Host, AuditFacts::Export(facts)));
        let row = self.store.commit(&self.fence, vec![export]).await.map_err(failed)?;
        let head = audit_head(&row).ok_or_else(closed)?;
        send(parts, self.file(audit)).await?;
        let mut lines = Box::pin(audit_lines(Arc::clone(&self.store), self.job, 1, head.records));
        while let Some(bytes) = lines.next().await {
            send(parts, Part::Bytes(bytes.map_err(failed)?)).await?;
        }
        send(parts, Part::Bytes(Bytes::from(format!("{}\n", head.line())))).await
    }

    fn file(&self, name: String) -> Part {
        let (kind, modified_ms) = (EntryKind::File, self.at_ms);
        Part::Entry { name, kind, mode: 0o644, size: 0, modified_ms, target: String::new() }
    }
}

async fn send(parts: &mpsc::Sender<Part>, part: Part) -> Result<(), ArtifactError> {
    parts.send(part).await.map_err(|_| closed())
}

fn closed() -> ArtifactError {
    ArtifactError::Write(io::Error::from(io::ErrorKind::BrokenPipe))
}
