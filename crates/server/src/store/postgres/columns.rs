//! A job as three rows: `jobs` is written once, `job_states` a few times in a life, `job_progress` with every commit.
//!
//! PostgreSQL writes a whole row anew for every change, and keeps the old one for as long as any transaction could still see it. Apart,
//! the rows that change often are narrow and have no index beside their key, and those that the queue is read by change seldom.

use std::sync::LazyLock;

use tokio_postgres::Row;

use super::codecs::{
    PostgresColumns, SqlValue, artifact_bytes, artifact_sha256, json, maybe_json, maybe_word, plain, word,
};
use crate::job::JobRow;
use crate::store::StoreError;
use crate::store::columns::job_columns;
use crate::store::rules::{JobLease, LeasedJob};
use crate::store::values::text;

macro_rules! column_names {
    ([] once: $(($once:literal $($_once:tt)*))* state: $(($state:literal $($_state:tt)*))*
     progress: $(($progress:literal $($_progress:tt)*))*) => {
        const ONCE: &[&str] = &[$($once),*];
        const STATE: &[&str] = &[$($state),*];
        const PROGRESS: &[&str] = &[$($progress),*];
    };
}
job_columns!(column_names);

/// PostgresColumns of `jobs` beside those of the list.
const KEYS: [&str; 3] = ["number", "id", "kind"];
/// In `job_states`, because the time that a job has may be prolonged.
const LIMITS: [&str; 1] = ["limits"];
/// The lease, in `job_states`.
const LEASE: [&str; 3] = ["lease_owner", "lease_place", "lease_until"];

/// The query for whole rows with their leases. A condition follows.
pub(super) static SELECT: LazyLock<String> = LazyLock::new(|| {
    let of = |table: &str, names: &[&str]| {
        names.iter().map(|name| format!("{table}.{name}")).collect::<Vec<_>>().join(", ")
    };
    // A lease lasts until its own end or until that of its owner, whose row the heartbeats prolong: one row, not one for each job.
    format!(
        "SELECT {}, {}, {}, {}, {}, s.lease_owner, GREATEST(s.lease_until, COALESCE(o.lease_until, 0)) \
         FROM jobs j JOIN job_states s USING (number) JOIN job_progress p USING (number) \
         LEFT JOIN owners o ON o.owner = s.lease_owner WHERE ",
        of("j", &KEYS),
        of("s", &LIMITS),
        of("j", ONCE),
        of("s", STATE),
        of("p", PROGRESS)
    )
});

/// Stores a new row and its request, with the values of [`insert_values`].
pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| {
    let mut next = 1;
    let mut values = |count: usize| {
        let values: Vec<String> = (next..next + count).map(|place| format!("${place}")).collect();
        next += count;
        values.join(", ")
    };
    let jobs = values(KEYS.len() + ONCE.len());
    let states = values(LIMITS.len() + STATE.len() + LEASE.len());
    let progress = values(PROGRESS.len());
    let request = values(1);
    format!(
        "WITH job AS (INSERT INTO jobs ({}, {}) VALUES ({jobs})), \
         state AS (INSERT INTO job_states (number, {}, {}, {}) VALUES ($1, {states})), \
         request AS (INSERT INTO requests (job, request) VALUES ($1, {request})) \
         INSERT INTO job_progress (number, {}) VALUES ($1, {progress})",
        KEYS.join(", "),
        ONCE.join(", "),
        LIMITS.join(", "),
        STATE.join(", "),
        LEASE.join(", "),
        PROGRESS.join(", ")
    )
});

/// Writes a row of `job_states` with its lease: the number, then the values of [`state_values`].
pub(super) static UPDATE_STATE: LazyLock<String> =
    LazyLock::new(|| update("job_states", LIMITS.iter().chain(STATE).chain(&LEASE)));

/// Writes a row of `job_progress`: the number, then the values of [`progress_values`].
pub(super) static UPDATE_PROGRESS: LazyLock<String> =
    LazyLock::new(|| update("job_progress", PROGRESS.iter()));

fn update<'a>(table: &str, names: impl Iterator<Item = &'a &'a str>) -> String {
    let set: Vec<String> = names.zip(2..).map(|(name, place)| set(name, place)).collect();
    format!("UPDATE {table} SET {} WHERE number = $1", set.join(", "))
}

fn set(name: &str, place: usize) -> String {
    if name == "lease_place" {
        // The place is that of the owner. A server that only records a request leaves it alone.
        let owner = place - 1;
        return format!(
            "{name} = CASE WHEN lease_owner IS NOT DISTINCT FROM ${owner} THEN lease_place ELSE ${place} END"
        );
    }
    format!("{name} = ${place}")
}

/// Decodes a row of [`SELECT`].
pub(super) fn read_leased(found: &Row) -> Result<LeasedJob, StoreError> {
    let mut columns = PostgresColumns::new(found);
    let row = read_columns(&mut columns)?;
    let lease = JobLease { owner: columns.take("lease owner")?, until_ms: columns.take("end of the lease")? };
    Ok(LeasedJob { row, lease })
}

/// Decodes a row of [`SELECT`] without its lease.
pub(super) fn read(found: &Row) -> Result<JobRow, StoreError> {
    read_columns(&mut PostgresColumns::new(found))
}

fn read_columns(columns: &mut PostgresColumns<'_>) -> Result<JobRow, StoreError> {
    let number = columns.take("number")?;
    let id = word::take(columns, "job id")?;
    let kind = word::take(columns, "kind")?;
    let mut job = JobRow::new(id, kind, json::take(columns, "limits")?);
    job.number = number;
    macro_rules! read_fields {
        ([] once: $(($once:literal $once_codec:ident $($once_field:ident).+))*
         state: $(($state:literal $state_codec:ident $($state_field:ident).+))*
         progress: $(($progress:literal $progress_codec:ident $($progress_field:ident).+))*) => {
            $($once_codec::read(columns, $once, &mut job.$($once_field).+)?;)*
            $($state_codec::read(columns, $state, &mut job.$($state_field).+)?;)*
            $($progress_codec::read(columns, $progress, &mut job.$($progress_field).+)?;)*
        };
    }
    job_columns!(read_fields);
    Ok(job)
}

/// The values of [`INSERT`].
pub(super) fn insert_values(
    job: &LeasedJob,
    place: &str,
    sealed_request: Vec<u8>,
) -> Result<Vec<SqlValue>, StoreError> {
    let row = &job.row;
    let mut values = vec![SqlValue::Integer(row.number), word::write(&row.id)?, word::write(&row.kind)?];
    values.extend(once_values(row)?);
    values.extend(state_values(job, place)?);
    values.extend(progress_values(row)?);
    values.push(SqlValue::Bytes(sealed_request));
    Ok(values)
}

fn once_values(job: &JobRow) -> Result<Vec<SqlValue>, StoreError> {
    macro_rules! values {
        ([] once: $(($_once:literal $codec:ident $($field:ident).+))* state: $($_rest:tt)*) => {
            Ok(vec![$($codec::write(&job.$($field).+)?),*])
        };
    }
    job_columns!(values)
}

/// The values of `job_states`: the limits first, the lease last.
pub(super) fn state_values(job: &LeasedJob, place: &str) -> Result<Vec<SqlValue>, StoreError> {
    let LeasedJob { row, lease } = job;
    macro_rules! values {
        ([] once: $(($($_once:tt)*))* state: $(($_state:literal $codec:ident $($field:ident).+))*
         progress: $($_rest:tt)*) => {
            vec![$($codec::write(&row.$($field).+)?),*]
        };
    }
    let mut values = vec![SqlValue::Text(text(&row.limits, "limits")?)];
    let columns: Vec<SqlValue> = job_columns!(values);
    values.extend(columns);
    values.push(SqlValue::maybe_text(lease.owner.as_deref()));
    values.push(SqlValue::maybe_text(lease.owner.as_ref().map(|_| place)));
    values.push(SqlValue::Integer(lease.until_ms));
    Ok(values)
}

/// The values of `job_progress`.
pub(super) fn progress_values(job: &JobRow) -> Result<Vec<SqlValue>, StoreError> {
    macro_rules! values {
        ([] once: $(($($_once:tt)*))* state: $(($($_state:tt)*))*
         progress: $(($_progress:literal $codec:ident $($field:ident).+))*) => {
            Ok(vec![$($codec::write(&job.$($field).+)?),*])
        };
    }
    job_columns!(values)
}

/// One job by id.
pub(super) static BY_ID: LazyLock<String> = LazyLock::new(|| format!("{}j.id = $1", *SELECT));

/// One job by number.
pub(super) static BY_NUMBER: LazyLock<String> = LazyLock::new(|| format!("{}j.number = $1", *SELECT));

/// Jobs by id, locked. Both rows that change are: a transaction that waits for a lock reads the locked rows anew, but no others. In the
/// order of their numbers, so that two transactions rarely wait for each other.
pub(super) static LOCK: LazyLock<String> =
    LazyLock::new(|| format!("{}j.id = ANY($1) ORDER BY j.number FOR NO KEY UPDATE OF s, p", *SELECT));

/// The same without those that another transaction has.
pub(super) static LOCK_FREE: LazyLock<String> = LazyLock::new(|| format!("{} SKIP LOCKED", *LOCK));
