//! Rows of kept texts.

use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use sandyard_memory::{ContentDigest, SourceOrigin};

use super::read;
use super::writer::Writing;
use crate::job::{JobId, NewText, NewTextBody, StoredText, TextRow};
use crate::store::StoreError;
use crate::store::values::damaged;

/// Keeps texts. Writes only the columns of the job that count them, because every call of a tool may leave one.
pub(super) fn keep(
    writing: &mut Writing<'_>,
    id: &JobId,
    epoch: Option<u64>,
    texts: Vec<NewText>,
) -> Result<Option<()>, StoreError> {
    let found = read::job(writing.connection, id)?;
    let Some(write) = writing.rules().keep_texts(found, id, epoch, texts)? else { return Ok(None) };
    let row = &write.row;
    writing
        .connection
        .prepare_cached("UPDATE jobs SET texts = ?2, journal_bytes = ?3, revision = ?4 WHERE number = ?1")?
        .execute(params![row.number, row.texts, row.journal_bytes, row.revision])?;
    for (text, body) in &write.texts {
        add(writing.connection, row.number, text, body.as_ref())?;
    }
    writing.counts.resized(write.kept_bytes_before, row.kept_bytes());
    Ok(Some(()))
}

fn add(
    connection: &Connection,
    job: i64,
    text: &TextRow,
    body: Option<&NewTextBody>,
) -> Result<(), StoreError> {
    let TextRow { number, entry, origin, path, at_ms, digest, bytes } = text;
    let (packed, in_blob) = match body {
        Some(NewTextBody::Inline(packed)) => (Some(packed.as_ref()), false),
        Some(NewTextBody::Blob(_)) => (None, true),
        Some(NewTextBody::Known) | None => (None, false),
    };
    connection
        .prepare_cached(
            "INSERT INTO texts (job, number, entry, origin, path, at_ms, digest, bytes, packed, in_blob) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            job,
            number,
            entry,
            origin.to_byte(),
            path,
            at_ms,
            digest.to_bytes(),
            bytes,
            packed,
            in_blob
        ])?;
    Ok(())
}

/// A query for texts of the job of parameter 1, for [`text`].
macro_rules! select_texts {
    ($condition:literal) => {
        concat!(
            "SELECT number, entry, origin, path, at_ms, digest, bytes FROM texts WHERE job = ?1 AND ",
            $condition
        )
    };
}

/// Texts from a number on.
pub(super) fn from(
    connection: &Connection,
    job: i64,
    first: u64,
    limit: usize,
) -> Result<Vec<TextRow>, StoreError> {
    let sql = select_texts!("number >= ?2 ORDER BY number LIMIT ?3");
    select(connection, sql, params![job, bound(first), limit])
}

/// Texts of a journal entry.
pub(super) fn at_entry(
    connection: &Connection,
    job: i64,
    entry: u64,
    limit: usize,
) -> Result<Vec<TextRow>, StoreError> {
    let sql = select_texts!("entry = ?2 ORDER BY number LIMIT ?3");
    select(connection, sql, params![job, bound(entry), limit])
}

/// Texts of a path from before an entry, newest first.
pub(super) fn of_path(
    connection: &Connection,
    job: i64,
    path: &str,
    before: u64,
    limit: usize,
) -> Result<Vec<TextRow>, StoreError> {
    let sql = select_texts!("path = ?2 AND entry < ?3 ORDER BY number DESC LIMIT ?4");
    select(connection, sql, params![job, path, bound(before), limit])
}

fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn select(connection: &Connection, sql: &str, values: impl Params) -> Result<Vec<TextRow>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(text(row)?);
    }
    Ok(found)
}

fn text(row: &Row<'_>) -> Result<TextRow, StoreError> {
    let digest: [u8; 16] = row.get(5)?;
    Ok(TextRow {
        number: row.get(0)?,
        entry: row.get(1)?,
        origin: damaged(SourceOrigin::from_byte(row.get(2)?), "kept text")?,
        path: row.get(3)?,
        at_ms: row.get(4)?,
        digest: ContentDigest::from_bytes(digest),
        bytes: row.get(6)?,
    })
}

/// Where the bytes of a text are.
pub(super) fn body(
    connection: &Connection,
    job: i64,
    digest: ContentDigest,
) -> Result<Option<StoredText>, StoreError> {
    let found: Option<Option<Vec<u8>>> = connection
        .prepare_cached(
            "SELECT packed FROM texts WHERE job = ?1 AND digest = ?2 AND (packed IS NOT NULL OR in_blob = 1) \
             ORDER BY number LIMIT 1",
        )?
        .query_row(params![job, digest.to_bytes()], |row| row.get(0))
        .optional()?;
    Ok(found.map(|packed| packed.map_or(StoredText::Blob, |packed| StoredText::Inline(packed.into()))))
}
