//! A job for tests of the store and of what reads its rows.

use std::collections::BTreeMap;

use sandyard_protocol::Secret;

use super::{JobRow, StreamRow};
use crate::job::JobLimits;
use crate::job::{Floor, JobKind, NewJob, RequestedLimits, TaskOptions};
use crate::job::{JobState, SandboxState};

/// A key that signs audits.
pub(crate) fn signer() -> std::sync::Arc<crate::audit::SigningKey> {
    let folder = tempfile::tempdir().unwrap();
    std::sync::Arc::new(crate::audit::SigningKey::load_or_create(&folder.path().join("audit.key")).unwrap())
}

/// An entry of an audit.
pub(crate) fn entry() -> crate::audit::AuditEntry {
    let caller = crate::audit::CallerFacts { by: "local".into(), over: None };
    crate::audit::AuditEntry::new(
        crate::audit::AuditActor::Operator,
        crate::audit::AuditFacts::Cancel(caller),
    )
}

/// A request.
pub(crate) fn new_job() -> NewJob {
    NewJob {
        kind: JobKind::Shell,
        code: "true".into(),
        name: None,
        files: Vec::new(),
        env: BTreeMap::new(),
        isolation: Floor::Any,
        limits: RequestedLimits::default(),
        keep: false,
        egress: Vec::new(),
        git: None,
        task: TaskOptions::default(),
    }
}

/// The row of a job that has just been made.
pub(crate) fn job_row() -> JobRow {
    JobRow {
        number: 0,
        id: crate::job::random_id().unwrap(),
        name: Some("name".into()),
        kind: JobKind::Shell,
        limits: JobLimits { machine: Default::default(), timeout_s: 1, idle_timeout_s: None },
        keep: false,
        created_ms: 0,
        state: JobState::Queued,
        sandbox: SandboxState::None,
        reason: None,
        requested_isolation: "any".into(),
        driver: None,
        runtime: None,
        level: None,
        isolation_reason: None,
        started_ms: None,
        finished_ms: None,
        exit_code: None,
        failure: None,
        usage: None,
        outcome: None,
        artifact: None,
        incarnation: 0,
        attempts: 0,
        begun: false,
        secret: Secret::new([7; 32]),
        epoch: 0,
        cancel_requested: false,
        delete_requested: false,
        open: true,
        guest_sequence: 0,
        stdout: StreamRow::default(),
        stderr: StreamRow::default(),
        last_event: 0,
        revision: 0,
        egress_bytes: 0,
        task: None,
        journal_bytes: 0,
        audit: None,
        audit_bytes: 0,
    }
}
