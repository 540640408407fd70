//! Writes, each inside a savepoint of the writer's transaction: read rows, ask a rule, write the answer.

use rusqlite::{Connection, OptionalExtension, params, types::Value};
use sandyard_protocol::JournalEntry;
use sandyard_sandbox::driver::SandboxId;

use super::columns;
use super::read;
use super::sandboxes;
use super::writer::Writing;
use crate::audit::{AuditEntry, AuditLine};
use crate::job::apply::{Applied, SandboxWrite};
use crate::job::{Change, JobFence, JobId, JobRow, JobState, NewJob, NotedEntries};
use crate::store::rules::{
    self, AppendDecision, CancelDecision, FoundKey, InsertDecision, JobLease, JobWrite, NewJobWrite,
    RepeatedKey, SayDecision, YardNote,
};
use crate::store::sealing::{file_place, request_place};
use crate::store::values::{damaged, text};
use crate::store::{Appended, InsertJob, Inserted, JobClaim, Said, StoreError, StoredKey};

pub(super) fn insert(
    writing: &mut Writing<'_>,
    job: InsertJob,
    claim: Option<JobClaim>,
) -> Result<Inserted, StoreError> {
    // The key is checked in the transaction that stores it: two requests with one key can't both insert.
    if let Some(key) = &job.key
        && let Some(found) = find_key(writing.connection, key)?
    {
        match rules::answer_repeat(found, key) {
            RepeatedKey::Taken => return Ok(Inserted::KeyTaken),
            RepeatedKey::Same(number) => {
                let row = read::job_by_number(writing.connection, number)?;
                return damaged(row, "idempotency key").map(|row| Inserted::Repeated(Box::new(row)));
            }
        }
    }
    let queued = writing.counts.get(JobState::Queued);
    match writing.rules().insert(job, queued, claim)? {
        InsertDecision::Answer(answer) => Ok(answer),
        InsertDecision::Write(write) => insert_new(writing, *write).map(|row| Inserted::New(Box::new(row))),
    }
}

fn find_key(connection: &Connection, key: &StoredKey) -> Result<Option<FoundKey>, StoreError> {
    let found = connection
        .prepare_cached("SELECT body_sha256, job FROM idempotency_keys WHERE key_sha256 = ?1")?
        .query_row([key.key_sha256], |row| Ok(FoundKey { body_sha256: row.get(0)?, job: row.get(1)? }))
        .optional()?;
    Ok(found)
}

fn insert_new(writing: &mut Writing<'_>, write: NewJobWrite) -> Result<JobRow, StoreError> {
    let NewJobWrite { mut row, lease, request, key, applied } = write;
    row.number = columns::insert(writing.connection, &row, &lease)?;
    writing
        .connection
        .prepare_cached("INSERT INTO requests (job, request) VALUES (?1, ?2)")?
        .execute(params![row.number, sealed_request(writing, row.number, &request.job)?])?;
    for (place, file) in request.files.iter().enumerate() {
        let sealed = writing.sealer().seal(&file_place(row.number, place), &file.bytes)?;
        writing
            .connection
            .prepare_cached(
                "INSERT INTO request_files (job, place, path, bytes, sealed) VALUES (?1, ?2, ?3, ?4, 1)",
            )?
            .execute(params![row.number, place, file.path, sealed])?;
    }
    if let Some(key) = &key {
        writing
            .connection
            .prepare_cached(
                "INSERT INTO idempotency_keys (key_sha256, body_sha256, job) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![key.key_sha256, key.body_sha256, row.number])?;
    }
    // After the row: events, journal and audit refer to its number.
    add(writing, row.number, &applied)?;
    writing.counts.moved(None, Some(row.state));
    writing.counts.resized(0, row.kept_bytes());
    writing.touched.push(row.id.clone());
    Ok(row)
}

fn sealed_request(writing: &Writing<'_>, job: i64, request: &NewJob) -> Result<Vec<u8>, StoreError> {
    writing.sealer().seal(&request_place(job), text(request, "request")?.as_bytes())
}

pub(super) fn claim_queued(
    writing: &mut Writing<'_>,
    id: &JobId,
    claim: JobClaim,
) -> Result<Option<JobRow>, StoreError> {
    let found = read::leased(writing.connection, id)?;
    let write = writing.rules().claim_queued(found, claim)?;
    write.map(|write| save(writing, write)).transpose()
}

pub(super) fn claim_orphans(
    writing: &mut Writing<'_>,
    owner: &str,
    ttl_ms: u64,
) -> Result<Vec<JobRow>, StoreError> {
    let rules = writing.rules();
    // The rule decides. The condition only keeps most open jobs from being read.
    let candidates = read::leased_jobs(
        writing.connection,
        "open = 1 AND (lease_owner IS NULL OR lease_until <= ?1) ORDER BY number",
        vec![Value::Integer(rules.now.lease_ms)],
    )?;
    let mut taken = Vec::new();
    for found in candidates {
        if let Some(write) = rules.claim_orphan(found, owner, ttl_ms)? {
            taken.push(save(writing, write)?);
        }
    }
    Ok(taken)
}

pub(super) fn renew(writing: &Writing<'_>, owner: &str, ttl_ms: u64) -> Result<Vec<JobFence>, StoreError> {
    let rules = writing.rules();
    let mut kept = Vec::new();
    // A lease that has run out is not renewed, even if nobody took the job: its owner lets go and claims it anew.
    for (fence, lease) in read::leases(writing.connection, owner)? {
        if let Some(lease) = rules.renew(&lease, owner, ttl_ms) {
            writing
                .connection
                .prepare_cached("UPDATE jobs SET lease_until = ?2 WHERE id = ?1")?
                .execute(params![fence.job.as_str(), lease.until_ms])?;
            kept.push(fence);
        }
    }
    Ok(kept)
}

pub(super) fn release_all(writing: &Writing<'_>, owner: &str) -> Result<(), StoreError> {
    writing.connection.execute(
        "UPDATE jobs SET lease_owner = NULL, lease_until = 0 WHERE open = 1 AND lease_owner = ?1",
        [owner],
    )?;
    writing.connection.execute("UPDATE sandboxes SET owner = NULL WHERE owner = ?1", [owner])?;
    Ok(())
}

pub(super) fn requeue(writing: &mut Writing<'_>, fence: &JobFence, reason: String) -> Result<(), StoreError> {
    let found = read::job(writing.connection, &fence.job)?;
    let write = writing.rules().requeue(found, fence, reason)?;
    save(writing, write).map(drop)
}

pub(super) fn commit(
    writing: &mut Writing<'_>,
    fence: &JobFence,
    changes: Vec<Change>,
) -> Result<JobRow, StoreError> {
    let found = read::job(writing.connection, &fence.job)?;
    let write = writing.rules().commit(found, fence, changes)?;
    save(writing, write)
}

pub(super) fn append(
    writing: &mut Writing<'_>,
    fence: &JobFence,
    number: u64,
    entry: Box<JournalEntry>,
) -> Result<Appended, StoreError> {
    let row = rules::owned(read::job(writing.connection, &fence.job)?, fence)?;
    let found = read::own_entry(writing.connection, row.number, number)?;
    match writing.rules().append(row, found.as_ref(), number, entry)? {
        AppendDecision::Answer(answer) => Ok(answer),
        AppendDecision::Write { number, write } => {
            save(writing, *write)?;
            Ok(Appended::Kept { number })
        }
    }
}

pub(super) fn say(
    writing: &mut Writing<'_>,
    id: &JobId,
    said: Box<JournalEntry>,
    entry: AuditEntry,
) -> Result<Said, StoreError> {
    let found = read::job(writing.connection, id)?;
    match writing.rules().say(found, said, entry)? {
        SayDecision::Answer(answer) => Ok(answer),
        SayDecision::Write(write) => save(writing, *write).map(|row| Said::Kept(Box::new(row))),
    }
}

/// Adds entries to an audit. Writes only the audit's columns, because every call of a tool adds a note.
pub(super) fn note(
    writing: &mut Writing<'_>,
    id: &JobId,
    epoch: Option<u64>,
    entries: &[AuditEntry],
) -> Result<Option<NotedEntries>, StoreError> {
    let found = read::job(writing.connection, id)?;
    let Some(write) = writing.rules().note(found, id, epoch, entries)? else { return Ok(None) };
    let row = &write.row;
    writing
        .connection
        .prepare_cached("UPDATE jobs SET audit = ?2, audit_bytes = ?3, revision = ?4 WHERE number = ?1")?
        .execute(params![row.number, text(&row.audit, "audit")?, row.audit_bytes, row.revision])?;
    add_audit(writing, row.number, &write.lines)?;
    writing.counts.resized(write.kept_bytes_before, row.kept_bytes());
    Ok(Some(write.notes))
}

pub(super) fn request_cancel(
    writing: &mut Writing<'_>,
    id: &JobId,
    entry: AuditEntry,
) -> Result<Option<JobRow>, StoreError> {
    let found = read::job(writing.connection, id)?;
    match writing.rules().request_cancel(found, entry)? {
        CancelDecision::Unknown => Ok(None),
        CancelDecision::Answer(row) => Ok(Some(*row)),
        CancelDecision::Write(write) => save(writing, *write).map(Some),
    }
}

pub(super) fn request_delete(
    writing: &mut Writing<'_>,
    id: &JobId,
    entry: AuditEntry,
) -> Result<Option<JobRow>, StoreError> {
    let found = read::job(writing.connection, id)?;
    let write = writing.rules().request_delete(found, entry)?;
    write.map(|write| save(writing, write)).transpose()
}

pub(super) fn note_yard(writing: &Writing<'_>, entry: &AuditEntry) -> Result<(), StoreError> {
    let YardNote { audit, lines } = writing.rules().note_yard(read::yard_audit(writing.connection)?, entry);
    for line in &lines {
        writing
            .connection
            .prepare_cached("INSERT INTO yard_audit (number, record) VALUES (?1, ?2)")?
            .execute(params![line.number, line.text])?;
    }
    writing
        .connection
        .prepare_cached("INSERT OR REPLACE INTO yard_audit_end (only, audit) VALUES (1, ?1)")?
        .execute([text(&audit, "yard audit")?])?;
    Ok(())
}

pub(super) fn remove(writing: &mut Writing<'_>, fence: &JobFence) -> Result<(), StoreError> {
    let found = read::job(writing.connection, &fence.job)?;
    let removed = writing.rules().remove(found, fence)?;
    let row = removed.row;
    // Before the job goes: the reference to it becomes NULL, and only the phase `leaving` tells that the sandbox must be stopped.
    if let Some(sandbox) = removed.leaves {
        sandboxes::write(writing.connection, &SandboxWrite::Leave(sandbox))?;
    }
    for table in
        ["events", "chunks", "journal", "texts", "audit", "requests", "request_files", "idempotency_keys"]
    {
        writing.connection.execute(&format!("DELETE FROM {table} WHERE job = ?1"), [row.number])?;
    }
    writing.connection.execute("DELETE FROM jobs WHERE number = ?1", [row.number])?;
    writing.counts.moved(Some(row.state), None);
    writing.counts.resized(row.kept_bytes(), 0);
    writing.touched.push(row.id);
    Ok(())
}

pub(super) fn remove_sandbox(writing: &Writing<'_>, sandbox: SandboxId) -> Result<(), StoreError> {
    sandboxes::write(writing.connection, &SandboxWrite::Remove(sandbox))
}

/// Writes the decision of a rule about a stored job. Returns the row.
fn save(writing: &mut Writing<'_>, write: JobWrite) -> Result<JobRow, StoreError> {
    let row = &write.row;
    columns::update(writing.connection, row)?;
    if let Some(JobLease { owner, until_ms }) = &write.lease {
        writing
            .connection
            .prepare_cached("UPDATE jobs SET lease_owner = ?2, lease_until = ?3 WHERE number = ?1")?
            .execute(params![row.number, owner, until_ms])?;
    }
    add(writing, row.number, &write.applied)?;
    if let Some(entry) = &write.for_yard {
        note_yard(writing, entry)?;
    }
    if write.drops_request_files() {
        writing
            .connection
            .prepare_cached("DELETE FROM request_files WHERE job = ?1")?
            .execute([row.number])?;
    }
    if write.before.state != row.state {
        writing.counts.moved(Some(write.before.state), Some(row.state));
    }
    writing.counts.resized(write.before.kept_bytes, row.kept_bytes());
    // Woken after the commit, never before it.
    writing.touched.push(row.id.clone());
    Ok(write.row)
}

/// Writes the rows that belong to a job beside its own: events, chunks, journal, sandboxes, audit.
fn add(writing: &Writing<'_>, job: i64, applied: &Applied) -> Result<(), StoreError> {
    let connection = writing.connection;
    for event in &applied.events {
        connection
            .prepare_cached("INSERT INTO events (job, id, kind, at_ms, data) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![job, event.id, event.kind, event.at_ms, event.data.to_string()])?;
    }
    for chunk in &applied.chunks {
        let stream = read::stream_number(chunk.stream);
        connection
            .prepare_cached(
                "INSERT INTO chunks (job, stream, number, offset, length, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![job, stream, chunk.number, chunk.offset, chunk.length, chunk.inline.as_deref()])?;
    }
    // In the same commit that counts them as dropped: a reader never finds a gap that the row does not explain.
    for (stream, first, end) in &applied.dropped {
        connection
            .prepare_cached(
                "DELETE FROM chunks WHERE job = ?1 AND stream = ?2 AND number >= ?3 AND number < ?4",
            )?
            .execute(params![job, read::stream_number(*stream), first, end])?;
    }
    for entry in &applied.journal {
        connection
            .prepare_cached(
                "INSERT INTO journal (job, number, kind, at_ms, incarnation, entry) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![job, entry.number, entry.kind, entry.at_ms, entry.incarnation, entry.text])?;
    }
    for write in &applied.sandboxes {
        sandboxes::write(connection, write)?;
    }
    add_audit(writing, job, &applied.audit)
}

/// Writes records of an audit. The primary key rejects a second record of the same number, which would fork the chain.
fn add_audit(writing: &Writing<'_>, job: i64, lines: &[AuditLine]) -> Result<(), StoreError> {
    for line in lines {
        writing
            .connection
            .prepare_cached("INSERT INTO audit (job, number, record) VALUES (?1, ?2, ?3)")?
            .execute(params![job, line.number, line.text])?;
    }
    Ok(())
}
