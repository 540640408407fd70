//! Rows of the table `sandboxes`. They change when a job gets or loses a sandbox, not with its events.

use std::sync::LazyLock;

use sandyard_protocol::Secret;
use tokio_postgres::Row;

use super::codecs::{PostgresColumns, SqlValue, json, maybe_word, word};
use crate::job::SandboxRow;
use crate::store::StoreError;
use crate::store::values::{damaged, text};

const SELECT: &str =
    "SELECT id, driver, image, secret, phase, owner, job, limits, limits_binding, created_ms FROM sandboxes ";

/// One sandbox by id.
pub(super) static BY_ID: LazyLock<String> = LazyLock::new(|| format!("{SELECT}WHERE id = $1"));

/// All sandboxes, oldest first.
pub(super) static ALL: LazyLock<String> = LazyLock::new(|| format!("{SELECT}ORDER BY created_ms, id"));

/// Sandboxes by their ids or their jobs.
pub(super) static WANTED: LazyLock<String> =
    LazyLock::new(|| format!("{SELECT}WHERE id = ANY($1) OR job = ANY($2)"));

/// Stores a row, in place of the one of that id.
pub(super) const PUT: &str = "INSERT INTO sandboxes \
    (id, driver, image, secret, phase, owner, place, job, limits, limits_binding, created_ms) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO UPDATE SET \
    driver = $2, image = $3, secret = $4, phase = $5, owner = $6, \
    place = CASE WHEN sandboxes.owner IS NOT DISTINCT FROM $6 THEN sandboxes.place ELSE $7 END, job = $8, limits = $9, \
    limits_binding = $10, created_ms = $11";

/// Deletes rows.
pub(super) const DELETE: &str = "DELETE FROM sandboxes WHERE id = ANY($1)";

/// Decodes a row.
pub(super) fn read(row: &Row) -> Result<SandboxRow, StoreError> {
    let mut columns = PostgresColumns::new(row);
    Ok(SandboxRow {
        id: word::take(&mut columns, "sandbox id")?,
        driver: columns.take("driver")?,
        image: maybe_word::take(&mut columns, "image")?,
        secret: secret(columns.take("secret")?)?,
        phase: word::take(&mut columns, "phase")?,
        owner: columns.take("owner")?,
        job: maybe_word::take(&mut columns, "job id")?,
        limits: json::take(&mut columns, "limits")?,
        limits_binding: word::take(&mut columns, "limits binding")?,
        created_ms: columns.take("time of creation")?,
    })
}

/// The values of [`PUT`].
pub(super) fn values(row: &SandboxRow, place: &str) -> Result<Vec<SqlValue>, StoreError> {
    Ok(vec![
        word::write(&row.id)?,
        SqlValue::text(&row.driver),
        maybe_word::write(&row.image)?,
        SqlValue::Bytes(row.secret.expose().to_vec()),
        word::write(&row.phase)?,
        SqlValue::maybe_text(row.owner.as_deref()),
        SqlValue::maybe_text(row.owner.as_ref().map(|_| place)),
        maybe_word::write(&row.job)?,
        SqlValue::Text(text(&row.limits, "limits")?),
        word::write(&row.limits_binding)?,
        SqlValue::Integer(row.created_ms),
    ])
}

fn secret(stored: Vec<u8>) -> Result<Secret, StoreError> {
    damaged(stored.try_into().ok(), "secret").map(Secret::new)
}
