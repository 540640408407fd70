//! Rows of the table `jobs` as [`JobRow`]s and back, from the list of columns that all databases share. One table has all of them, so
//! `state` and `progress` are the same here.

use rusqlite::{Connection, Row, Statement};

use super::codecs::{
    SqliteColumns, artifact_bytes, artifact_sha256, json, maybe_json, maybe_word, plain, word,
};
use crate::job::JobRow;
use crate::store::StoreError;
use crate::store::columns::job_columns;
use crate::store::rules::{JobLease, LeasedJob};
use crate::store::values::text;

macro_rules! select_sql {
    ([$condition:literal]
     once: $(($once:literal $($_once:tt)*))* state: $(($state:literal $($_state:tt)*))*
     progress: $(($progress:literal $($_progress:tt)*))*) => {
        concat!(
            "SELECT number, id, kind, limits", $(", ", $once,)* $(", ", $state,)* $(", ", $progress,)*
            ", lease_owner, lease_until FROM jobs WHERE ", $condition
        )
    };
}
pub(super) use select_sql;

/// A query for whole rows that match a condition, for [`read`] and [`read_leased`].
macro_rules! select_jobs {
    ($condition:literal) => {
        $crate::store::columns::job_columns!(select_sql $condition)
    };
}
pub(super) use select_jobs;

/// One more value to bind.
macro_rules! placeholder {
    ($column:literal) => {
        ", ?"
    };
}

macro_rules! insert_sql {
    ([] once: $(($once:literal $($_once:tt)*))* state: $(($state:literal $($_state:tt)*))*
     progress: $(($progress:literal $($_progress:tt)*))*) => {
        concat!(
            "INSERT INTO jobs (id, kind, limits, lease_owner, lease_until", $(", ", $once,)* $(", ", $state,)*
            $(", ", $progress,)* ") VALUES (?, ?, ?, ?, ?", $(placeholder!($once),)* $(placeholder!($state),)*
            $(placeholder!($progress),)* ")"
        )
    };
}

macro_rules! update_sql {
    ([] once: $($_once:tt)* ) => { update_sql!(@ $($_once)*) };
    (@ ($($_once:tt)*) $($rest:tt)*) => { update_sql!(@ $($rest)*) };
    (@ state: ($first:literal $($_first:tt)*) $(($state:literal $($_state:tt)*))*
     progress: $(($progress:literal $($_progress:tt)*))*) => {
        concat!(
            "UPDATE jobs SET limits = ?, ", $first, " = ?", $(", ", $state, " = ?",)* $(", ", $progress, " = ?",)* " WHERE number = ?"
        )
    };
}

const INSERT: &str = job_columns!(insert_sql);
const UPDATE: &str = job_columns!(update_sql);

/// Decodes a row of `jobs`. A value that no release writes is reported as damage.
pub(super) fn read(found: &Row<'_>) -> Result<JobRow, StoreError> {
    read_columns(&mut SqliteColumns::new(found))
}

/// One row and its lease.
pub(super) fn read_leased(found: &Row<'_>) -> Result<LeasedJob, StoreError> {
    let mut columns = SqliteColumns::new(found);
    let row = read_columns(&mut columns)?;
    let lease = JobLease { owner: columns.take()?, until_ms: columns.take()? };
    Ok(LeasedJob { row, lease })
}

fn read_columns(columns: &mut SqliteColumns<'_>) -> Result<JobRow, StoreError> {
    let number = columns.take()?;
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

/// Binds values one after the other.
struct Binder<'a, 'c> {
    statement: &'a mut Statement<'c>,
    bound: usize,
}

impl Binder<'_, '_> {
    fn bind(&mut self, value: impl rusqlite::ToSql) -> Result<(), StoreError> {
        self.bound += 1;
        Ok(self.statement.raw_bind_parameter(self.bound, value)?)
    }

    fn bind_once(&mut self, job: &JobRow) -> Result<(), StoreError> {
        macro_rules! bind_fields {
            ([] once: $(($_once:literal $codec:ident $($field:ident).+))* state: $($_rest:tt)*) => {
                $(self.bind($codec::write(&job.$($field).+)?)?;)*
            };
        }
        job_columns!(bind_fields);
        Ok(())
    }

    fn bind_always(&mut self, job: &JobRow) -> Result<(), StoreError> {
        macro_rules! bind_fields {
            ([] once: $(($($_once:tt)*))* state: $(($_state:literal $state_codec:ident $($state_field:ident).+))*
             progress: $(($_progress:literal $codec:ident $($field:ident).+))*) => {
                $(self.bind($state_codec::write(&job.$($state_field).+)?)?;)*
                $(self.bind($codec::write(&job.$($field).+)?)?;)*
            };
        }
        job_columns!(bind_fields);
        Ok(())
    }
}

/// Stores a new row with its lease and returns its number.
pub(super) fn insert(connection: &Connection, job: &JobRow, lease: &JobLease) -> Result<i64, StoreError> {
    let mut statement = connection.prepare_cached(INSERT)?;
    let mut binder = Binder { statement: &mut statement, bound: 0 };
    binder.bind(word::write(&job.id)?)?;
    binder.bind(word::write(&job.kind)?)?;
    binder.bind(text(&job.limits, "limits")?)?;
    binder.bind(&lease.owner)?;
    binder.bind(lease.until_ms)?;
    binder.bind_once(job)?;
    binder.bind_always(job)?;
    statement.raw_execute()?;
    Ok(connection.last_insert_rowid())
}

/// Writes everything of a row that can change, except its lease.
pub(super) fn update(connection: &Connection, job: &JobRow) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(UPDATE)?;
    let mut binder = Binder { statement: &mut statement, bound: 0 };
    // Of the limits only the time changes.
    binder.bind(text(&job.limits, "limits")?)?;
    binder.bind_always(job)?;
    binder.bind(job.number)?;
    statement.raw_execute()?;
    Ok(())
}
