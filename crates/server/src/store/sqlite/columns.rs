//! Rows of the table `jobs` as [`JobRow`]s and back.

use rusqlite::{Connection, Row, named_params};
use sandyard_protocol::Secret;
use sandyard_sandbox::driver::IsolationLevel;

use super::counts::damaged;
use crate::job::JobId;
use crate::job::JobKind;
use crate::job::{ArtifactRow, JobRow, StreamRow};
use crate::job::{JobState, SandboxState};
use crate::store::StoreError;

/// A query for whole rows; the columns stand in the order in which `read` takes them.
macro_rules! select_jobs {
    ($condition:literal) => {
        concat!(
            "SELECT number, id, name, kind, limits, keep, created_ms, state, sandbox, reason, requested_isolation, \
             driver, runtime, isolation_reason, started_ms, finished_ms, exit_code, failure, usage, outcome, \
             artifact_sha256, artifact_bytes, incarnation, attempts, begun, secret, epoch, cancel_requested, \
             delete_requested, open, guest_sequence, stdout_bytes, stdout_dropped, stdout_next_chunk, \
             stdout_tail_chunk, stderr_bytes, stderr_dropped, stderr_next_chunk, stderr_tail_chunk, last_event, \
             revision, egress_bytes, task, journal_bytes, audit, audit_bytes, level FROM jobs WHERE ",
            $condition
        )
    };
}
pub(super) use select_jobs;

/// One row.
pub(super) fn read(row: &Row<'_>) -> Result<JobRow, StoreError> {
    let artifact_sha256: Option<String> = row.get(20)?;
    let artifact_bytes: Option<u64> = row.get(21)?;
    Ok(JobRow {
        number: row.get(0)?,
        id: damaged(JobId::parse(row.get_ref(1)?.as_str().unwrap_or_default()), "job id")?,
        name: row.get(2)?,
        kind: damaged(JobKind::parse(row.get_ref(3)?.as_str().unwrap_or_default()).ok(), "kind")?,
        limits: damaged(serde_json::from_str(row.get_ref(4)?.as_str().unwrap_or_default()).ok(), "limits")?,
        keep: row.get(5)?,
        created_ms: row.get(6)?,
        state: damaged(JobState::parse(row.get_ref(7)?.as_str().unwrap_or_default()), "state")?,
        sandbox: damaged(SandboxState::parse(row.get_ref(8)?.as_str().unwrap_or_default()), "sandbox state")?,
        reason: row.get(9)?,
        requested_isolation: row.get(10)?,
        driver: row.get(11)?,
        runtime: row.get(12)?,
        isolation_reason: row.get(13)?,
        started_ms: row.get(14)?,
        finished_ms: row.get(15)?,
        exit_code: row.get(16)?,
        failure: json(row, 17, "failure")?,
        usage: json(row, 18, "usage")?,
        outcome: match row.get_ref(19)?.as_str_or_null().unwrap_or_default() {
            Some(text) => Some(damaged(JobState::parse(text), "outcome")?),
            None => None,
        },
        artifact: artifact_sha256.zip(artifact_bytes).map(|(sha256, bytes)| ArtifactRow { sha256, bytes }),
        incarnation: row.get(22)?,
        attempts: row.get(23)?,
        begun: row.get(24)?,
        secret: Secret::new(row.get(25)?),
        epoch: row.get(26)?,
        cancel_requested: row.get(27)?,
        delete_requested: row.get(28)?,
        open: row.get(29)?,
        guest_sequence: row.get(30)?,
        stdout: stream(row, 31)?,
        stderr: stream(row, 35)?,
        last_event: row.get(39)?,
        revision: row.get(40)?,
        egress_bytes: row.get(41)?,
        task: json(row, 42, "task")?,
        journal_bytes: row.get(43)?,
        audit: json(row, 44, "audit")?,
        audit_bytes: row.get(45)?,
        level: match row.get_ref(46)?.as_str_or_null().unwrap_or_default() {
            Some(text) => Some(damaged(IsolationLevel::parse(text), "isolation level")?),
            None => None,
        },
    })
}

fn stream(row: &Row<'_>, first: usize) -> Result<StreamRow, StoreError> {
    Ok(StreamRow {
        bytes: row.get(first)?,
        dropped: row.get(first + 1)?,
        next_chunk: row.get(first + 2)?,
        tail_chunk: row.get(first + 3)?,
    })
}

fn json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    what: &'static str,
) -> Result<Option<T>, StoreError> {
    match row.get_ref(column)?.as_str_or_null().unwrap_or_default() {
        Some(text) => damaged(serde_json::from_str(text).ok(), what).map(Some),
        None => Ok(None),
    }
}

/// Stores a new row and returns its number.
pub(super) fn insert(connection: &Connection, job: &JobRow) -> Result<i64, StoreError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO jobs (id, name, kind, limits, keep, created_ms, state, sandbox, reason, requested_isolation, incarnation, \
         attempts, begun, secret, epoch, cancel_requested, delete_requested, open, guest_sequence, stdout_bytes, \
         stdout_dropped, stdout_next_chunk, stdout_tail_chunk, stderr_bytes, stderr_dropped, stderr_next_chunk, \
         stderr_tail_chunk, last_event, revision, task) VALUES (:id, :name, :kind, :limits, :keep, :created_ms, :state, \
         :sandbox, :reason, :requested, 0, 0, 0, :secret, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, :task)",
    )?;
    statement.execute(named_params! {
        ":id": job.id.as_str(),
        ":name": job.name,
        ":kind": job.kind.as_str(),
        ":limits": text(&job.limits, "limits")?,
        ":keep": job.keep,
        ":created_ms": job.created_ms,
        ":state": job.state.as_str(),
        ":sandbox": job.sandbox.as_str(),
        ":reason": job.reason,
        ":requested": job.requested_isolation,
        ":secret": job.secret.expose(),
        ":task": optional_text(job.task.as_ref(), "task")?,
    })?;
    Ok(connection.last_insert_rowid())
}

/// Writes everything of a row that can change, except its lease.
pub(super) fn update(connection: &Connection, job: &JobRow) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "UPDATE jobs SET state = :state, sandbox = :sandbox, reason = :reason, driver = :driver, runtime = :runtime, \
         isolation_reason = :isolation_reason, started_ms = :started_ms, finished_ms = :finished_ms, \
         exit_code = :exit_code, failure = :failure, usage = :usage, outcome = :outcome, \
         artifact_sha256 = :artifact_sha256, artifact_bytes = :artifact_bytes, incarnation = :incarnation, \
         attempts = :attempts, begun = :begun, secret = :secret, epoch = :epoch, cancel_requested = :cancel_requested, \
         delete_requested = :delete_requested, open = :open, guest_sequence = :guest_sequence, \
         stdout_bytes = :stdout_bytes, stdout_dropped = :stdout_dropped, stdout_next_chunk = :stdout_next_chunk, \
         stdout_tail_chunk = :stdout_tail_chunk, stderr_bytes = :stderr_bytes, stderr_dropped = :stderr_dropped, \
         stderr_next_chunk = :stderr_next_chunk, stderr_tail_chunk = :stderr_tail_chunk, last_event = :last_event, \
         revision = :revision, egress_bytes = :egress_bytes, task = :task, journal_bytes = :journal_bytes, \
         audit = :audit, audit_bytes = :audit_bytes, level = :level \
         WHERE number = :number",
    )?;
    statement.execute(named_params! {
        ":number": job.number,
        ":state": job.state.as_str(),
        ":sandbox": job.sandbox.as_str(),
        ":reason": job.reason,
        ":driver": job.driver,
        ":runtime": job.runtime,
        ":isolation_reason": job.isolation_reason,
        ":started_ms": job.started_ms,
        ":finished_ms": job.finished_ms,
        ":exit_code": job.exit_code,
        ":failure": optional_text(job.failure.as_ref(), "failure")?,
        ":usage": optional_text(job.usage.as_ref(), "usage")?,
        ":outcome": job.outcome.map(JobState::as_str),
        ":artifact_sha256": job.artifact.as_ref().map(|artifact| &artifact.sha256),
        ":artifact_bytes": job.artifact.as_ref().map(|artifact| artifact.bytes),
        ":incarnation": job.incarnation,
        ":attempts": job.attempts,
        ":begun": job.begun,
        ":secret": job.secret.expose(),
        ":epoch": job.epoch,
        ":cancel_requested": job.cancel_requested,
        ":delete_requested": job.delete_requested,
        ":open": job.open,
        ":guest_sequence": job.guest_sequence,
        ":stdout_bytes": job.stdout.bytes,
        ":stdout_dropped": job.stdout.dropped,
        ":stdout_next_chunk": job.stdout.next_chunk,
        ":stdout_tail_chunk": job.stdout.tail_chunk,
        ":stderr_bytes": job.stderr.bytes,
        ":stderr_dropped": job.stderr.dropped,
        ":stderr_next_chunk": job.stderr.next_chunk,
        ":stderr_tail_chunk": job.stderr.tail_chunk,
        ":last_event": job.last_event,
        ":revision": job.revision,
        ":egress_bytes": job.egress_bytes,
        ":task": optional_text(job.task.as_ref(), "task")?,
        ":journal_bytes": job.journal_bytes,
        ":audit": optional_text(job.audit.as_ref(), "audit")?,
        ":audit_bytes": job.audit_bytes,
        ":level": job.level.map(IsolationLevel::as_str),
    })?;
    Ok(())
}

pub(super) fn text<T: serde::Serialize>(value: &T, what: &'static str) -> Result<String, StoreError> {
    damaged(serde_json::to_string(value).ok(), what)
}

fn optional_text<T: serde::Serialize>(
    value: Option<&T>,
    what: &'static str,
) -> Result<Option<String>, StoreError> {
    value.map(|value| text(value, what)).transpose()
}
