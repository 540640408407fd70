//! The audit: its records for whoever asks, and notes of what is done to a job.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::{Value, json};

use super::{AppError, ErrorCode, Yard};
use crate::audit::{Actor, Entry, Head, Kind, PublicKey};
use crate::auth::Caller;
use crate::job_id::JobId;
use crate::store::{JobRow, Store, StoreError};
use crate::witness::Call;

/// Records read at once.
const PAGE: usize = 500;

/// The audit of a job as it was at one moment.
pub struct Audit {
    /// Its signed end.
    pub head: Head,
    /// Records in order, then the head, each with a newline.
    pub lines: BoxStream<'static, io::Result<Bytes>>,
}

impl Yard {
    /// The same yard, used by somebody else than a program on this machine.
    #[must_use]
    pub fn by(&self, caller: &Caller) -> Self {
        Self { caller: caller.clone(), ..self.clone() }
    }

    /// Who signs the heads of audits.
    pub fn audit_key(&self) -> PublicKey {
        self.shared.audit_key
    }

    /// A job's records behind a number, and its signed head.
    pub async fn audit(&self, id: &JobId, after: u64) -> Result<Audit, AppError> {
        let row = self.row(id).await?;
        let head = head(&row)
            .ok_or_else(|| AppError::new(ErrorCode::NotFound, "the job was made before audits were kept"))?;
        let last = Bytes::from(format!("{}\n", head.line()));
        let lines = lines(Arc::clone(&self.shared.store), row.number, after + 1, head.records)
            .map(|line| line.map_err(io::Error::other))
            .chain(stream::once(async { Ok(last) }));
        Ok(Audit { head, lines: lines.boxed() })
    }

    /// Notes what is about to be done to a job. Nothing may be done if this fails.
    pub(crate) async fn witness(
        &self,
        id: &JobId,
        kind: Kind,
        facts: Value,
    ) -> Result<Option<Call>, StoreError> {
        self.shared.witness.call(id, kind, facts).await
    }

    /// An entry about something that the present caller does.
    pub(super) fn entry(&self, kind: Kind, mut facts: Value) -> Entry {
        self.caller.describe(&mut facts);
        Entry::new(Actor::Operator, kind, facts)
    }

    /// What was asked, as a hash: its words, files and environment are nobody's business who reads an audit.
    pub(super) fn schedule_entry(&self, job: &super::NewJob) -> Entry {
        let request = serde_json::to_vec(job).unwrap_or_default();
        let files: Vec<Value> = job
            .files
            .iter()
            .take(100)
            .map(|file| {
                let path = crate::audit::cut(&file.path, 200);
                json!({ "path": path, "size": file.bytes.len(), "sha256": crate::audit::digest(&file.bytes) })
            })
            .collect();
        self.entry(
            Kind::Schedule,
            json!({
                "kind": job.kind.as_str(), "input_sha256": crate::audit::digest(job.code.as_bytes()),
                "request_sha256": crate::audit::digest(&request), "isolation": job.isolation.as_text(),
                "egress": job.egress.iter().take(100).collect::<Vec<_>>(), "model": job.task.model,
                "files": files, "files_count": job.files.len(),
                "git": job.git.is_some(), "env": job.env.keys().take(100).collect::<Vec<_>>(),
            }),
        )
    }
}

/// The signed head of a row.
pub(crate) fn head(row: &JobRow) -> Option<Head> {
    let audit = row.audit.as_ref()?;
    Some(Head {
        job: row.id.to_string(),
        records: audit.records,
        head: audit.head.clone(),
        signature: audit.signature.clone(),
        key: audit.key.clone(),
    })
}

/// Records from a number to another, each with a newline.
pub(crate) fn lines(
    store: Arc<dyn Store>,
    job: i64,
    first: u64,
    last: u64,
) -> impl futures_util::Stream<Item = Result<Bytes, StoreError>> + Send {
    let pages = stream::try_unfold((store, first), move |(store, next)| async move {
        if next > last {
            return Ok(None);
        }
        let limit = usize::try_from(last + 1 - next).unwrap_or(PAGE).min(PAGE);
        let page = store.audit(job, next, limit).await?;
        // A job that is deleted meanwhile has no further records.
        let Some(end) = page.last().map(|line| line.number) else { return Ok(None) };
        Ok::<_, StoreError>(Some((page, (store, end + 1))))
    });
    pages.map(|page| {
        page.map(|page| {
            let text: String = page.into_iter().flat_map(|line| [line.text, "\n".to_owned()]).collect();
            Bytes::from(text)
        })
    })
}
