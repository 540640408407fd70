//! The audit: its records for readers, and notes about acts on a job.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};

use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::audit::{
    AuditActor, AuditEntry, AuditFacts, AuditHead, BodyFacts, CallFacts, CallRecord, FileDigest, PublicKey,
    ScheduleFacts, cut, digest,
};
use crate::auth::{AccessScope, Caller};
use crate::yard::RecordedCall;

/// The audit of a job as it was at one moment.
pub struct Audit {
    /// The signed head, which covers exactly the records of `lines`.
    pub head: AuditHead,
    /// Records in order, then the head, each with a newline.
    pub lines: BoxStream<'static, io::Result<Bytes>>,
}

impl Yard {
    /// The public key of the heads of audits. It is no secret, so it needs no caller.
    pub fn audit_key(&self) -> PublicKey {
        self.context.audit_key
    }

    /// A job's records behind a number, and its signed head.
    pub async fn audit(&self, job: &JobAccess, after: u64) -> Result<Audit, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        let head = crate::job::audit_head(&row)
            .ok_or_else(|| AppError::new(ErrorCode::NotFound, "the job was made before audits were kept"))?;
        let last = Bytes::from(format!("{}\n", head.line()));
        let lines =
            // Bounded by the head that was read first: records that are added meanwhile are not covered by its signature.
            crate::store::audit_lines(Arc::clone(&self.context.store), row.number, after + 1, head.records)
                .map(|line| line.map_err(io::Error::other))
                .chain(stream::once(async { Ok(last) }));
        Ok(Audit { head, lines: lines.boxed() })
    }

    /// Records a call that is about to be made in the name of the job's caller. The call must not be made if this fails.
    /// `None` if the job no longer exists.
    pub(crate) async fn record_call(
        &self,
        job: &JobAccess,
        call: CallFacts,
        body: BodyFacts,
    ) -> Result<Option<RecordedCall>, AppError> {
        let call = CallRecord { call, body, caller: job.caller().facts() };
        Ok(self.context.recorder.call(job.id(), call).await?)
    }
}

/// The entry of an audit about something that a caller does.
pub(super) fn entry(facts: AuditFacts) -> AuditEntry {
    AuditEntry::new(AuditActor::Operator, facts)
}

/// Describes a new job by hashes: the audit must not reveal prompts, file contents or values of the environment.
pub(super) fn schedule_entry(caller: &Caller, job: &super::NewJob) -> AuditEntry {
    let request = serde_json::to_vec(job).unwrap_or_default();
    let files = job.files.iter().take(100).map(|file| FileDigest {
        path: cut(&file.path, 200),
        size: file.bytes.len() as u64,
        sha256: Some(digest(&file.bytes)),
    });
    entry(AuditFacts::Schedule(Box::new(ScheduleFacts {
        kind: job.kind.as_str(),
        input_sha256: digest(job.code.as_bytes()),
        request_sha256: digest(&request),
        isolation: job.isolation.as_text(),
        egress: job.egress.iter().take(100).cloned().collect(),
        model: job.task.model.clone(),
        files: files.collect(),
        files_count: job.files.len(),
        git: job.git.is_some(),
        env: job.env.keys().take(100).cloned().collect(),
        caller: caller.facts(),
    })))
}
