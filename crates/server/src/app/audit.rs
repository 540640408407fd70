//! The audit: its records for readers, and notes about acts on a job.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};

use super::access::require;
use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::audit::{
    AuditActor, AuditEntry, AuditFacts, AuditHead, BodyFacts, CallFacts, CallRecord, FileDigest, PublicKey,
    ScheduleFacts, StartFacts, YARD_CHAIN, cut, digest,
};
use crate::auth::{AccessScope, Caller};
use crate::store::{AuditOf, audit_lines};
use crate::yard::RecordedCall;

/// The rules that a server begins with, as people may read them: no key and no password.
#[derive(Debug, Clone)]
pub struct YardStart {
    /// The version of the server.
    pub version: String,
    /// Ids of the keys that open it.
    pub keys: Vec<String>,
    /// The settings in effect, by name.
    pub settings: BTreeMap<String, String>,
}

/// An audit as it was at one moment.
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
        Ok(self.audit_from(AuditOf::Job(row.number), head, after))
    }

    /// The yard's own records behind a number, and their signed head. They outlive the jobs that they are about.
    pub async fn yard_audit(&self, caller: &Caller, after: u64) -> Result<Audit, AppError> {
        require(caller, AccessScope::ReadYard)?;
        let end = self.context.store.yard_audit().await?;
        Ok(self.audit_from(AuditOf::Yard, end.signed_head(YARD_CHAIN), after))
    }

    /// Records that a server begins to serve the yard, with the rules that it begins with.
    pub async fn record_start(&self, start: YardStart) -> Result<(), AppError> {
        let YardStart { version, keys, settings } = start;
        let facts = AuditFacts::Start(StartFacts { version, keys, settings });
        Ok(self.context.store.note_yard(AuditEntry::new(AuditActor::Host, facts)).await?)
    }

    fn audit_from(&self, of: AuditOf, head: AuditHead, after: u64) -> Audit {
        let last = Bytes::from(format!("{}\n", head.line()));
        // Bounded by the head that was read first: records that are added meanwhile are not covered by its signature.
        let lines = audit_lines(Arc::clone(&self.context.store), of, after + 1, head.records)
            .map(|line| line.map_err(io::Error::other))
            .chain(stream::once(async { Ok(last) }));
        Audit { head, lines: lines.boxed() }
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
