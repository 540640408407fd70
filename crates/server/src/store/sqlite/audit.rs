//! Records of audits: written with what they tell, or noted before it is done.

use rusqlite::{Connection, params};

use super::columns;
use super::read as rows;
use super::write::Now;
use super::writer::Writing;
use crate::audit::{AuditEntry, AuditLine};
use crate::job::JobId;
use crate::job::apply;
use crate::job::{AuditRow, Notes};
use crate::store::StoreError;

/// Adds entries to a job's audit. Nobody who waits for the job is woken: nothing of it has changed.
pub(super) fn note(
    writing: &mut Writing<'_>,
    now: Now,
    id: &JobId,
    epoch: Option<u64>,
    entries: &[AuditEntry],
) -> Result<Option<Notes>, StoreError> {
    let Some(mut row) = rows::job(writing.connection, id)?.filter(|row| !row.delete_requested) else {
        return Ok(None);
    };
    if epoch.is_some_and(|epoch| epoch != row.epoch) {
        return Err(StoreError::Stale(id.clone()));
    }
    let before = row.kept_bytes();
    let mut audit = row.audit.take().unwrap_or_else(|| AuditRow::begin(id));
    let mut lines = Vec::new();
    let noted = entries.iter().map(|entry| audit.note(entry, now.wall_ms, &mut lines)).collect();
    if !lines.is_empty() {
        audit.sign(id, writing.signer);
    }
    row.audit_bytes += apply::bytes(&lines);
    writing
        .connection
        .prepare_cached(
            "UPDATE jobs SET audit = ?2, audit_bytes = ?3, revision = revision + 1 WHERE number = ?1",
        )?
        .execute(params![row.number, columns::text(&audit, "audit")?, row.audit_bytes])?;
    insert(writing, row.number, &lines)?;
    writing.counts.resized(before, row.kept_bytes());
    Ok(Some(Notes { noted, is_over: !row.open }))
}

/// Writes records. The primary key keeps a second one of a number out.
pub(super) fn insert(writing: &Writing<'_>, job: i64, lines: &[AuditLine]) -> Result<(), StoreError> {
    for line in lines {
        writing
            .connection
            .prepare_cached("INSERT INTO audit (job, number, record) VALUES (?1, ?2, ?3)")?
            .execute(params![job, line.number, line.text])?;
    }
    Ok(())
}

/// Records from a number on.
pub(super) fn read(
    connection: &Connection,
    job: i64,
    first: u64,
    limit: usize,
) -> Result<Vec<AuditLine>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, record FROM audit WHERE job = ?1 AND number >= ?2 ORDER BY number LIMIT ?3",
    )?;
    let first = i64::try_from(first).unwrap_or(i64::MAX);
    let found = statement.query_map(params![job, first, limit], |row| {
        Ok(AuditLine { number: row.get(0)?, text: row.get(1)? })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
