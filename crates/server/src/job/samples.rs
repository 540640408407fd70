//! A job for tests of the store and of what reads its rows.

use std::collections::BTreeMap;

use sandyard_protocol::Secret;

use super::{EffectiveLimits, Floor, JobKind, JobRow, NewJob, RequestedLimits, TaskOptions};
use super::{LimitsBinding, SandboxPhase, SandboxRow};

/// A key that signs audits.
pub(crate) fn signing_key() -> std::sync::Arc<crate::audit::SigningKey> {
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

/// Returns a valid request, for tests.
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
        flavour: None,
    }
}

/// The row of a job that has just been made.
pub(crate) fn job_row() -> JobRow {
    let limits =
        EffectiveLimits { machine: Default::default(), timeout_s: 1, idle_timeout_s: None, recording_mib: 0 };
    JobRow {
        name: Some("name".into()),
        requested_isolation: "any".into(),
        ..JobRow::new(crate::job::random_id().unwrap(), JobKind::Shell, limits)
    }
}

/// A sandbox for a job.
pub(crate) fn sandbox() -> SandboxRow {
    let id = crate::job::random_sandbox_id().unwrap();
    SandboxRow::for_job(id, "fake".into(), Secret::new([8; 32]), Default::default())
}

/// A sandbox that waits for a job, as a pool would keep it.
pub(crate) fn parked_sandbox() -> SandboxRow {
    let (phase, limits_binding) = (SandboxPhase::Parked, LimitsBinding::Provisional);
    SandboxRow { phase, limits_binding, ..sandbox() }
}
