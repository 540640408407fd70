//! Rows of the table `jobs` as [`JobRow`]s and back, from one list of columns.
//!
//! A new column of a job costs a field of `JobRow`, its value in `JobRow::new`, a line in [`job_columns`] and a migration.

use rusqlite::{Connection, Row, Statement};

use super::codecs::{
    Columns, artifact_bytes, artifact_sha256, json, maybe_json, maybe_word, plain, text, word,
};
use crate::job::JobRow;
use crate::store::StoreError;
use crate::store::rules::{JobLease, LeasedJob};

/// Hands every column to a macro, as `("column" codec field)`. Those under `once` are written with the job, those under `always`
/// also whenever it changes; the latter are rewritten with every commit, so they must stay small. The columns `number`, `id`,
/// `kind`, `limits` and those of the lease are written out where they are needed.
macro_rules! job_columns {
    ($with:ident $($argument:tt)*) => {
        $with! { [$($argument)*]
            once:
            ("name" plain name)
            ("keep" plain keep)
            ("created_ms" plain created_ms)
            ("requested_isolation" plain requested_isolation)
            always:
            ("state" word state)
            ("sandbox" word sandbox)
            ("sandbox_id" maybe_word sandbox_id)
            ("reason" plain reason)
            ("driver" plain driver)
            ("runtime" plain runtime)
            ("level" maybe_word level)
            ("isolation_reason" plain isolation_reason)
            ("started_ms" plain started_ms)
            ("finished_ms" plain finished_ms)
            ("exit_code" plain exit_code)
            ("failure" maybe_json failure)
            ("usage" maybe_json usage)
            ("outcome" maybe_word outcome)
            ("artifact_sha256" artifact_sha256 artifact)
            ("artifact_bytes" artifact_bytes artifact)
            ("explanation" maybe_json explanation)
            ("incarnation" plain incarnation)
            ("attempts" plain attempts)
            ("begun" plain begun)
            ("epoch" plain epoch)
            ("cancel_requested" plain cancel_requested)
            ("delete_requested" plain delete_requested)
            ("open" plain open)
            ("guest_sequence" plain guest_sequence)
            ("stdout_bytes" plain stdout.bytes)
            ("stdout_dropped" plain stdout.dropped)
            ("stdout_next_chunk" plain stdout.next_chunk)
            ("stdout_tail_chunk" plain stdout.tail_chunk)
            ("stderr_bytes" plain stderr.bytes)
            ("stderr_dropped" plain stderr.dropped)
            ("stderr_next_chunk" plain stderr.next_chunk)
            ("stderr_tail_chunk" plain stderr.tail_chunk)
            ("last_event" plain last_event)
            ("revision" plain revision)
            ("egress_bytes" plain egress_bytes)
            ("task" maybe_json task)
            ("recording_moments" plain recording.moments)
            ("recording_pictures" plain recording.pictures)
            ("recording_bytes" plain recording.bytes)
            ("journal_bytes" plain journal_bytes)
            ("texts" plain texts)
            ("audit" maybe_json audit)
            ("audit_bytes" plain audit_bytes)
        }
    };
}
pub(super) use job_columns;

macro_rules! select_sql {
    ([$condition:literal]
     once: $(($once:literal $($_once:tt)*))* always: $(($always:literal $($_always:tt)*))*) => {
        concat!(
            "SELECT number, id, kind, limits", $(", ", $once,)* $(", ", $always,)*
            ", lease_owner, lease_until FROM jobs WHERE ", $condition
        )
    };
}
pub(super) use select_sql;

/// A query for whole rows that match a condition, for [`read`] and [`read_leased`].
macro_rules! select_jobs {
    ($condition:literal) => {
        $crate::store::sqlite::columns::job_columns!(select_sql $condition)
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
    ([] once: $(($once:literal $($_once:tt)*))* always: $(($always:literal $($_always:tt)*))*) => {
        concat!(
            "INSERT INTO jobs (id, kind, limits, lease_owner, lease_until", $(", ", $once,)* $(", ", $always,)*
            ") VALUES (?, ?, ?, ?, ?", $(placeholder!($once),)* $(placeholder!($always),)* ")"
        )
    };
}

macro_rules! update_sql {
    ([] once: $($_once:tt)* ) => { update_sql!(@ $($_once)*) };
    (@ ($($_once:tt)*) $($rest:tt)*) => { update_sql!(@ $($rest)*) };
    (@ always: ($first:literal $($_first:tt)*) $(($column:literal $($_column:tt)*))*) => {
        concat!("UPDATE jobs SET limits = ?, ", $first, " = ?", $(", ", $column, " = ?",)* " WHERE number = ?")
    };
}

const INSERT: &str = job_columns!(insert_sql);
const UPDATE: &str = job_columns!(update_sql);

/// Decodes a row of `jobs`. A value that no release writes is reported as damage.
pub(super) fn read(found: &Row<'_>) -> Result<JobRow, StoreError> {
    read_columns(&mut Columns::new(found))
}

/// One row and its lease.
pub(super) fn read_leased(found: &Row<'_>) -> Result<LeasedJob, StoreError> {
    let mut columns = Columns::new(found);
    let row = read_columns(&mut columns)?;
    let lease = JobLease { owner: columns.take()?, until_ms: columns.take()? };
    Ok(LeasedJob { row, lease })
}

fn read_columns(columns: &mut Columns<'_>) -> Result<JobRow, StoreError> {
    let number = columns.take()?;
    let id = word::take(columns, "job id")?;
    let kind = word::take(columns, "kind")?;
    let mut job = JobRow::new(id, kind, json::take(columns, "limits")?);
    job.number = number;
    macro_rules! read_fields {
        ([] once: $(($once:literal $once_codec:ident $($once_field:ident).+))*
         always: $(($always:literal $always_codec:ident $($always_field:ident).+))*) => {
            $($once_codec::read(columns, $once, &mut job.$($once_field).+)?;)*
            $($always_codec::read(columns, $always, &mut job.$($always_field).+)?;)*
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
            ([] once: $(($_once:literal $codec:ident $($field:ident).+))* always: $($_always:tt)*) => {
                $(self.bind($codec::write(&job.$($field).+)?)?;)*
            };
        }
        job_columns!(bind_fields);
        Ok(())
    }

    fn bind_always(&mut self, job: &JobRow) -> Result<(), StoreError> {
        macro_rules! bind_fields {
            ([] once: $(($($_once:tt)*))* always: $(($_always:literal $codec:ident $($field:ident).+))*) => {
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
