//! Writes, each inside a savepoint of the writer's transaction.

use rusqlite::{OptionalExtension, params, types::Value};
use sandyard_protocol::JournalEntry;

use super::audit;
use super::columns;
use super::journal;
use super::read;
use super::writer::Writing;
use crate::audit::AuditEntry;
use crate::job::JobId;
use crate::job::JobState;
use crate::job::apply::{self, Applied};
use crate::job::{Change, Fence, JobRow};
use crate::store::{Claim, InsertJob, Inserted, StoreError};

/// The two clocks of a write: one for people, one for leases.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    /// Milliseconds since the epoch; may jump.
    pub(super) wall_ms: i64,
    /// Milliseconds since boot, suspend included; never jumps.
    pub(super) lease_ms: i64,
}

pub(super) fn insert(
    writing: &mut Writing<'_>,
    now: Now,
    job: InsertJob,
    claim: Option<Claim>,
) -> Result<Inserted, StoreError> {
    if let Some(answer) = earlier(writing, &job)? {
        return Ok(answer);
    }
    if claim.is_none() && writing.counts.get(JobState::Queued) >= job.queue as u64 {
        return Ok(Inserted::QueueFull);
    }
    let mut row = job.row;
    row.created_ms = now.wall_ms;
    row.number = columns::insert(writing.connection, &row)?;
    writing
        .connection
        .prepare_cached("INSERT INTO requests (job, request) VALUES (?1, ?2)")?
        .execute(params![row.number, columns::text(&job.request.job, "request")?])?;
    for (place, file) in job.request.files.iter().enumerate() {
        writing
            .connection
            .prepare_cached("INSERT INTO request_files (job, place, path, bytes) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![row.number, place, file.path, file.bytes])?;
    }
    if let Some(key) = &job.key {
        writing
            .connection
            .prepare_cached(
                "INSERT INTO idempotency_keys (key_sha256, body_sha256, job) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![key.key_sha256, key.body_sha256, row.number])?;
    }
    writing.counts.moved(None, Some(row.state));
    let mut applied = Applied::default();
    apply::state_event(&mut row, now.wall_ms, &mut applied);
    apply::audit(&mut row, &job.entry, now.wall_ms, &mut applied);
    if row.task.is_some() {
        let task = JournalEntry::Task { text: job.request.job.code.clone() };
        apply::first_entry(&mut row, &task, now.wall_ms, &mut applied)?;
    }
    let state = row.state;
    save(writing, &mut row, state, &applied)?;
    match claim {
        Some(claim) => take(writing, now, row, claim),
        None => Ok(row),
    }
    .map(|row| Inserted::New(Box::new(row)))
}

/// The answer to a repeat, if this is one.
fn earlier(writing: &Writing<'_>, job: &InsertJob) -> Result<Option<Inserted>, StoreError> {
    let Some(key) = &job.key else { return Ok(None) };
    let found: Option<(Vec<u8>, i64)> = writing
        .connection
        .prepare_cached("SELECT body_sha256, job FROM idempotency_keys WHERE key_sha256 = ?1")?
        .query_row([key.key_sha256], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((body, number)) = found else { return Ok(None) };
    if body != key.body_sha256 {
        return Ok(Some(Inserted::KeyTaken));
    }
    let row = read::job_by_number(writing.connection, number)?;
    Ok(row.map(|row| Inserted::Repeated(Box::new(row))))
}

/// Gives a row to an owner and applies the changes of its claim.
fn take(writing: &mut Writing<'_>, now: Now, mut row: JobRow, claim: Claim) -> Result<JobRow, StoreError> {
    row.epoch += 1;
    writing
        .connection
        .prepare_cached("UPDATE jobs SET epoch = ?2, lease_owner = ?3, lease_until = ?4 WHERE number = ?1")?
        .execute(params![row.number, row.epoch, claim.owner, until(now, claim.ttl_ms)])?;
    change(writing, now, row, claim.changes)
}

pub(super) fn claim_queued(
    writing: &mut Writing<'_>,
    now: Now,
    id: &JobId,
    claim: Claim,
) -> Result<Option<JobRow>, StoreError> {
    let Some(row) = read::job(writing.connection, id)? else { return Ok(None) };
    if row.state != JobState::Queued || row.delete_requested || !free(writing, now, row.number)? {
        return Ok(None);
    }
    take(writing, now, row, claim).map(Some)
}

fn free(writing: &Writing<'_>, now: Now, number: i64) -> Result<bool, StoreError> {
    let mut statement = writing
        .connection
        .prepare_cached("SELECT lease_owner IS NULL OR lease_until <= ?2 FROM jobs WHERE number = ?1")?;
    Ok(statement.query_row(params![number, now.lease_ms], |row| row.get(0))?)
}

pub(super) fn claim_orphans(
    writing: &mut Writing<'_>,
    now: Now,
    owner: &str,
    ttl_ms: u64,
) -> Result<Vec<JobRow>, StoreError> {
    let rows = read::jobs(
        writing.connection,
        "open = 1 AND (state <> 'queued' OR delete_requested = 1) AND (lease_owner IS NULL OR lease_until <= ?1) \
         ORDER BY number",
        vec![Value::Integer(now.lease_ms)],
    )?;
    let claim = Claim { owner: owner.to_owned(), ttl_ms, changes: Vec::new() };
    rows.into_iter().map(|row| take(writing, now, row, claim.clone())).collect()
}

pub(super) fn renew(
    writing: &Writing<'_>,
    now: Now,
    owner: &str,
    ttl_ms: u64,
) -> Result<Vec<Fence>, StoreError> {
    let mut statement = writing.connection.prepare_cached(
        "UPDATE jobs SET lease_until = ?2 WHERE open = 1 AND lease_owner = ?1 AND lease_until > ?3 RETURNING id, epoch",
    )?;
    let mut rows = statement.query(params![owner, until(now, ttl_ms), now.lease_ms])?;
    let mut kept = Vec::new();
    while let Some(row) = rows.next()? {
        if let Some(job) = JobId::parse(row.get_ref(0)?.as_str().unwrap_or_default()) {
            kept.push(Fence { job, epoch: row.get(1)? });
        }
    }
    Ok(kept)
}

pub(super) fn release_all(writing: &Writing<'_>, owner: &str) -> Result<(), StoreError> {
    writing.connection.execute(
        "UPDATE jobs SET lease_owner = NULL, lease_until = 0 WHERE open = 1 AND lease_owner = ?1",
        [owner],
    )?;
    Ok(())
}

pub(super) fn requeue(
    writing: &mut Writing<'_>,
    now: Now,
    fence: &Fence,
    reason: String,
) -> Result<(), StoreError> {
    let row = owned(writing, fence)?;
    let number = row.number;
    change(writing, now, row, vec![Change::Move { to: JobState::Queued, reason: Some(reason) }])?;
    writing
        .connection
        .execute("UPDATE jobs SET lease_owner = NULL, lease_until = 0 WHERE number = ?1", [number])?;
    Ok(())
}

pub(super) fn commit(
    writing: &mut Writing<'_>,
    now: Now,
    fence: &Fence,
    changes: Vec<Change>,
) -> Result<JobRow, StoreError> {
    let row = owned(writing, fence)?;
    change(writing, now, row, changes)
}

/// The row, if the fence still stands.
pub(super) fn owned(writing: &Writing<'_>, fence: &Fence) -> Result<JobRow, StoreError> {
    read::job(writing.connection, &fence.job)?
        .filter(|row| row.epoch == fence.epoch)
        .ok_or_else(|| StoreError::Stale(fence.job.clone()))
}

pub(super) fn request_cancel(
    writing: &mut Writing<'_>,
    now: Now,
    id: &JobId,
    entry: AuditEntry,
) -> Result<Option<JobRow>, StoreError> {
    let Some(mut row) = read::job(writing.connection, id)?.filter(|row| !row.delete_requested) else {
        return Ok(None);
    };
    if row.state.is_terminal() || row.cancel_requested {
        return Ok(Some(row));
    }
    row.cancel_requested = true;
    let mut changes = vec![Change::Audit(entry)];
    if row.state == JobState::Queued {
        // Nobody owns it, so nobody else would end it; the higher epoch stops an owner that is about to take it.
        row.epoch += 1;
        let reason = Some("cancelled before it started".into());
        changes.extend([Change::Move { to: JobState::Cancelled, reason }, Change::Closed]);
    }
    change(writing, now, row, changes).map(Some)
}

pub(super) fn request_delete(
    writing: &mut Writing<'_>,
    now: Now,
    id: &JobId,
    entry: AuditEntry,
) -> Result<Option<JobRow>, StoreError> {
    let Some(mut row) = read::job(writing.connection, id)?.filter(|row| !row.delete_requested) else {
        return Ok(None);
    };
    row.delete_requested = true;
    row.cancel_requested |= !row.state.is_terminal();
    if !row.open {
        row.open = true;
        writing
            .connection
            .execute("UPDATE jobs SET lease_owner = NULL, lease_until = 0 WHERE number = ?1", [row.number])?;
    }
    change(writing, now, row, vec![Change::Audit(entry)]).map(Some)
}

pub(super) fn remove(writing: &mut Writing<'_>, fence: &Fence) -> Result<(), StoreError> {
    let row = owned(writing, fence)?;
    for table in ["events", "chunks", "journal", "audit", "requests", "request_files", "idempotency_keys"] {
        writing.connection.execute(&format!("DELETE FROM {table} WHERE job = ?1"), [row.number])?;
    }
    writing.connection.execute("DELETE FROM jobs WHERE number = ?1", [row.number])?;
    writing.counts.moved(Some(row.state), None);
    writing.counts.resized(row.kept_bytes(), 0);
    writing.touched.push(row.id);
    Ok(())
}

/// Applies changes to a row and saves it.
pub(super) fn change(
    writing: &mut Writing<'_>,
    now: Now,
    mut row: JobRow,
    changes: Vec<Change>,
) -> Result<JobRow, StoreError> {
    let (before, bytes, was_open) = (row.state, row.kept_bytes(), row.open);
    let applied = apply::apply(&mut row, changes, now.wall_ms)?;
    save(writing, &mut row, before, &applied)?;
    writing.counts.resized(bytes, row.kept_bytes());
    if was_open && !row.open {
        // The files of the request are in the workspace's archive, if the job left them there.
        writing
            .connection
            .prepare_cached("DELETE FROM request_files WHERE job = ?1")?
            .execute([row.number])?;
    }
    Ok(row)
}

fn save(
    writing: &mut Writing<'_>,
    row: &mut JobRow,
    before: JobState,
    applied: &Applied,
) -> Result<(), StoreError> {
    if let Some(audit) = row.audit.as_mut().filter(|_| !applied.audit.is_empty()) {
        audit.sign(&row.id, writing.signer);
    }
    columns::update(writing.connection, row)?;
    for event in &applied.events {
        writing
            .connection
            .prepare_cached("INSERT INTO events (job, id, kind, at_ms, data) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![row.number, event.id, event.kind, event.at_ms, event.data.to_string()])?;
    }
    for chunk in &applied.chunks {
        writing
            .connection
            .prepare_cached(
                "INSERT INTO chunks (job, stream, number, offset, length, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                row.number,
                read::place(chunk.stream),
                chunk.number,
                chunk.offset,
                chunk.length,
                chunk.inline.as_deref()
            ])?;
    }
    for (stream, first, end) in &applied.dropped {
        writing
            .connection
            .prepare_cached(
                "DELETE FROM chunks WHERE job = ?1 AND stream = ?2 AND number >= ?3 AND number < ?4",
            )?
            .execute(params![row.number, read::place(*stream), first, end])?;
    }
    for entry in &applied.journal {
        journal::insert(writing, row.number, entry)?;
    }
    audit::insert(writing, row.number, &applied.audit)?;
    if before != row.state {
        writing.counts.moved(Some(before), Some(row.state));
    }
    writing.touched.push(row.id.clone());
    Ok(())
}

fn until(now: Now, ttl_ms: u64) -> i64 {
    now.lease_ms.saturating_add(i64::try_from(ttl_ms).unwrap_or(i64::MAX))
}
