//! The audit: its records for whoever asks, and notes of what is done to a job.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::{Value, json};

use super::{AppError, ErrorCode, Yard};
use crate::audit::{Actor, Entry, Head, Kind, PublicKey};
use crate::auth::Caller;
use crate::job::JobId;
use crate::store::StoreError;
use crate::yard::RecordedCall;

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
        self.context.audit_key
    }

    /// A job's records behind a number, and its signed head.
    pub async fn audit(&self, id: &JobId, after: u64) -> Result<Audit, AppError> {
        let row = self.row(id).await?;
        let head = crate::job::audit_head(&row)
            .ok_or_else(|| AppError::new(ErrorCode::NotFound, "the job was made before audits were kept"))?;
        let last = Bytes::from(format!("{}\n", head.line()));
        let lines =
            crate::store::audit_lines(Arc::clone(&self.context.store), row.number, after + 1, head.records)
                .map(|line| line.map_err(io::Error::other))
                .chain(stream::once(async { Ok(last) }));
        Ok(Audit { head, lines: lines.boxed() })
    }

    /// Notes what is about to be done to a job. Nothing may be done if this fails.
    pub(crate) async fn record_call(
        &self,
        id: &JobId,
        kind: Kind,
        facts: Value,
    ) -> Result<Option<RecordedCall>, StoreError> {
        self.context.recorder.call(id, kind, facts).await
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
