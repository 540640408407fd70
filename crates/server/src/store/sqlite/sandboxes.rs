//! Rows of the table `sandboxes`. They change when a job gets or loses a sandbox, not with its events.

use rusqlite::{Connection, OptionalExtension, Row, params};
use sandyard_protocol::Secret;
use sandyard_sandbox::driver::SandboxId;

use super::codecs::{SqliteColumns, json, maybe_word, word};
use crate::job::SandboxRow;
use crate::job::apply::SandboxWrite;
use crate::store::StoreError;
use crate::store::rules::write_sandbox;
use crate::store::values::text;

macro_rules! select_sandboxes {
    ($condition:literal) => {
        concat!(
            "SELECT id, driver, image, secret, phase, owner, job, limits, limits_binding, created_ms FROM sandboxes ",
            $condition
        )
    };
}

/// Returns the row of a sandbox; `None` if it was stopped or never made.
pub(super) fn one(connection: &Connection, id: &SandboxId) -> Result<Option<SandboxRow>, StoreError> {
    let mut statement = connection.prepare_cached(select_sandboxes!("WHERE id = ?1"))?;
    let found = statement.query_row([id.as_str()], |row| Ok(read(row))).optional()?;
    found.transpose()
}

/// Returns all sandboxes, oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<SandboxRow>, StoreError> {
    let mut statement = connection.prepare_cached(select_sandboxes!("ORDER BY created_ms, id"))?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<SandboxRow, StoreError> {
    let mut columns = SqliteColumns::new(row);
    Ok(SandboxRow {
        id: word::take(&mut columns, "sandbox id")?,
        driver: columns.take()?,
        image: maybe_word::take(&mut columns, "image")?,
        secret: Secret::new(columns.take()?),
        phase: word::take(&mut columns, "phase")?,
        owner: columns.take()?,
        job: maybe_word::take(&mut columns, "job id")?,
        limits: json::take(&mut columns, "limits")?,
        limits_binding: word::take(&mut columns, "limits binding")?,
        created_ms: columns.take()?,
    })
}

/// Carries out the decision of a rule about a sandbox.
pub(super) fn write(connection: &Connection, write: &SandboxWrite) -> Result<(), StoreError> {
    let id = write.sandbox();
    match write_sandbox(one(connection, id)?, write)? {
        Some(row) => put(connection, &row),
        None => {
            connection.prepare_cached("DELETE FROM sandboxes WHERE id = ?1")?.execute([id.as_str()])?;
            Ok(())
        }
    }
}

/// Stores a row, in place of the one of that id.
pub(super) fn put(connection: &Connection, row: &SandboxRow) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO sandboxes (id, driver, image, secret, phase, owner, job, limits, limits_binding, \
             created_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            word::write(&row.id)?,
            row.driver,
            maybe_word::write(&row.image)?,
            row.secret.expose(),
            word::write(&row.phase)?,
            row.owner,
            maybe_word::write(&row.job)?,
            text(&row.limits, "limits")?,
            word::write(&row.limits_binding)?,
            row.created_ms,
        ])?;
    Ok(())
}
