//! Reads: short, indexed, on connections of their own, beside the writer (WAL).

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter, types::Value};
use sandyard_api::JobIdPrefix;
use sandyard_protocol::{JournalRow, OutputStream};

use super::codecs::{SqliteColumns, word};
use super::columns::{self, select_jobs, select_sql};
use crate::audit::AuditLine;
use crate::job::{AuditRow, ChunkRow, EventRow, InputFile, JobFence, JobFilter, JobId, JobRow};
use crate::store::rules::{JobLease, LeasedJob, StoredEntry};
use crate::store::sealing::{StoreSealer, file_place, request_place};
use crate::store::values::damaged;
use crate::store::{AuditOf, EndedJob, StoreError, StoredRequest};

/// One job by id.
pub(super) fn job(connection: &Connection, id: &JobId) -> Result<Option<JobRow>, StoreError> {
    let mut statement = connection.prepare_cached(select_jobs!("id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    rows.next()?.map(columns::read).transpose()
}

/// One job by number.
pub(super) fn job_by_number(connection: &Connection, number: i64) -> Result<Option<JobRow>, StoreError> {
    let mut statement = connection.prepare_cached(select_jobs!("number = ?1"))?;
    let mut rows = statement.query([number])?;
    rows.next()?.map(columns::read).transpose()
}

/// One job with its lease.
pub(super) fn leased(connection: &Connection, id: &JobId) -> Result<Option<LeasedJob>, StoreError> {
    let mut statement = connection.prepare_cached(select_jobs!("id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    rows.next()?.map(columns::read_leased).transpose()
}

/// Jobs with their leases that match a condition, in its order.
pub(super) fn leased_jobs(
    connection: &Connection,
    condition: &str,
    values: Vec<Value>,
) -> Result<Vec<LeasedJob>, StoreError> {
    let mut statement = connection.prepare_cached(&format!("{}{condition}", select_jobs!("")))?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(columns::read_leased(row)?);
    }
    Ok(found)
}

/// Open jobs that an owner has or had, with their leases.
pub(super) fn leases(connection: &Connection, owner: &str) -> Result<Vec<(JobFence, JobLease)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, epoch, lease_owner, lease_until FROM jobs WHERE open = 1 AND lease_owner = ?1",
    )?;
    let mut rows = statement.query([owner])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let mut columns = SqliteColumns::new(row);
        let fence = JobFence { job: word::take(&mut columns, "job id")?, epoch: columns.take()? };
        found.push((fence, JobLease { owner: columns.take()?, until_ms: columns.take()? }));
    }
    Ok(found)
}

/// The first entry of a journal at or behind a number that is not a person's words.
pub(super) fn own_entry(
    connection: &Connection,
    job: i64,
    number: u64,
) -> Result<Option<StoredEntry>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, entry FROM journal WHERE job = ?1 AND number >= ?2 AND kind <> 'said' ORDER BY number LIMIT 1",
    )?;
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    let found = statement
        .query_row(params![job, number], |row| Ok(StoredEntry { number: row.get(0)?, text: row.get(1)? }))
        .optional()?;
    Ok(found)
}

/// Records of an audit from a number on.
pub(super) fn audit(
    connection: &Connection,
    of: AuditOf,
    first: u64,
    limit: usize,
) -> Result<Vec<AuditLine>, StoreError> {
    let first = i64::try_from(first).unwrap_or(i64::MAX);
    let line = |row: &Row<'_>| Ok(AuditLine { number: row.get(0)?, text: row.get(1)? });
    let found = match of {
        AuditOf::Job(job) => connection
            .prepare_cached(
                "SELECT number, record FROM audit WHERE job = ?1 AND number >= ?2 ORDER BY number LIMIT ?3",
            )?
            .query_map(params![job, first, limit], line)?
            .collect::<Result<_, _>>()?,
        AuditOf::Yard => connection
            .prepare_cached(
                "SELECT number, record FROM yard_audit WHERE number >= ?1 ORDER BY number LIMIT ?2",
            )?
            .query_map(params![first, limit], line)?
            .collect::<Result<_, _>>()?,
    };
    Ok(found)
}

/// The end of the yard's own audit.
pub(super) fn yard_audit(connection: &Connection) -> Result<Option<AuditRow>, StoreError> {
    let text: Option<String> = connection
        .prepare_cached("SELECT audit FROM yard_audit_end")?
        .query_row([], |row| row.get(0))
        .optional()?;
    text.map(|text| damaged(serde_json::from_str(&text).ok(), "yard audit")).transpose()
}

/// Jobs that match a condition, in its order.
pub(super) fn jobs(
    connection: &Connection,
    condition: &str,
    values: Vec<Value>,
) -> Result<Vec<JobRow>, StoreError> {
    let mut statement = connection.prepare_cached(&format!("{}{condition}", select_jobs!("")))?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(columns::read(row)?);
    }
    Ok(found)
}

/// A page of jobs, newest first.
pub(super) fn list(
    connection: &Connection,
    filter: &JobFilter,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<JobRow>, StoreError> {
    let mut condition = String::from("delete_requested = 0 AND number < ?");
    let mut values = vec![Value::Integer(before.unwrap_or(i64::MAX))];
    if let Some(kind) = filter.kind {
        condition.push_str(" AND kind = ?");
        values.push(Value::Text(kind.as_str().into()));
    }
    if !filter.states.is_empty() {
        condition.push_str(" AND state IN (");
        condition.push_str(&vec!["?"; filter.states.len()].join(", "));
        condition.push(')');
        values.extend(filter.states.iter().map(|state| Value::Text(state.as_str().into())));
    }
    condition.push_str(" ORDER BY number DESC LIMIT ?");
    values.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
    jobs(connection, &condition, values)
}

/// Returns the request of a job, with its files.
pub(super) fn request(
    connection: &Connection,
    sealer: &StoreSealer,
    id: &JobId,
) -> Result<Option<StoredRequest>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT r.request, r.job FROM requests r JOIN jobs j ON j.number = r.job WHERE j.id = ?1",
    )?;
    let found: Option<(Value, i64)> =
        statement.query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((request, number)) = found else { return Ok(None) };
    let request = match request {
        // Releases before the sealing stored the text itself.
        Value::Text(text) => Some(text.into_bytes()),
        Value::Blob(sealed) => sealer.open(&request_place(number), &sealed),
        _ => None,
    };
    let job = request.and_then(|json| serde_json::from_slice(&json).ok());
    let files = request_files(connection, sealer, number)?;
    Ok(Some(StoredRequest { job: damaged(job, "request")?, files }))
}

fn request_files(
    connection: &Connection,
    sealer: &StoreSealer,
    job: i64,
) -> Result<Vec<InputFile>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT place, path, bytes, sealed FROM request_files WHERE job = ?1 ORDER BY place",
    )?;
    let mut rows = statement.query([job])?;
    let mut files = Vec::new();
    while let Some(row) = rows.next()? {
        let (bytes, sealed): (Vec<u8>, bool) = (row.get(2)?, row.get(3)?);
        let bytes = if sealed { sealer.open(&file_place(job, row.get(0)?), &bytes) } else { Some(bytes) };
        files.push(InputFile { path: row.get(1)?, bytes: damaged(bytes, "request file")? });
    }
    Ok(files)
}

/// Events of a job above an id.
pub(super) fn events(
    connection: &Connection,
    id: &JobId,
    kind: Option<&str>,
    after: u64,
    limit: usize,
) -> Result<Vec<EventRow>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, kind, at_ms, data FROM events WHERE job = (SELECT number FROM jobs WHERE id = ?1) AND id > ?2 \
         AND (?4 IS NULL OR kind = ?4) ORDER BY id LIMIT ?3",
    )?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![id.as_str(), after, limit, kind])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let data = serde_json::from_str(row.get_ref(3)?.as_str().unwrap_or_default()).ok();
        found.push(EventRow {
            id: row.get(0)?,
            kind: row.get(1)?,
            at_ms: row.get(2)?,
            data: damaged(data, "event")?,
        });
    }
    Ok(found)
}

/// Chunks of a stream from a number on.
pub(super) fn chunks(
    connection: &Connection,
    job: i64,
    stream: OutputStream,
    from: u64,
    limit: usize,
) -> Result<Vec<ChunkRow>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, offset, length, bytes FROM chunks WHERE job = ?1 AND stream = ?2 AND number >= ?3 ORDER BY number LIMIT ?4",
    )?;
    let mut rows = statement.query(params![job, stream_number(stream), from, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(chunk(stream, row)?);
    }
    Ok(found)
}

/// Chunks of the end of a stream, down to an offset, in order.
pub(super) fn chunks_after(
    connection: &Connection,
    job: i64,
    stream: OutputStream,
    offset: u64,
) -> Result<Vec<ChunkRow>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, offset, length, bytes FROM chunks WHERE job = ?1 AND stream = ?2 ORDER BY number DESC",
    )?;
    let mut rows = statement.query(params![job, stream_number(stream)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let chunk = chunk(stream, row)?;
        if chunk.offset + chunk.length <= offset {
            break;
        }
        found.push(chunk);
    }
    found.reverse();
    Ok(found)
}

fn chunk(stream: OutputStream, row: &rusqlite::Row<'_>) -> Result<ChunkRow, rusqlite::Error> {
    let bytes: Option<Vec<u8>> = row.get(3)?;
    Ok(ChunkRow {
        stream,
        number: row.get(0)?,
        offset: row.get(1)?,
        length: row.get(2)?,
        inline: bytes.map(Into::into),
    })
}

/// Entries of a job's journal from a number on; the last one may exceed `bytes`, so that there is always one.
pub(super) fn journal(
    connection: &Connection,
    job: i64,
    first: u64,
    limit: usize,
    bytes: usize,
) -> Result<Vec<JournalRow>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, at_ms, incarnation, entry FROM journal WHERE job = ?1 AND number >= ?2 ORDER BY number LIMIT ?3",
    )?;
    let mut rows = statement.query(params![job, i64::try_from(first).unwrap_or(i64::MAX), limit])?;
    let (mut found, mut taken) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let text = row.get_ref(3)?.as_str().unwrap_or_default();
        taken += text.len();
        found.push(JournalRow {
            number: row.get(0)?,
            at_ms: row.get(1)?,
            incarnation: row.get(2)?,
            entry: damaged(serde_json::from_str(text).ok(), "journal entry")?,
        });
        if taken >= bytes {
            break;
        }
    }
    Ok(found)
}

/// When the job that ended first of those that are left ended.
pub(super) fn oldest_end(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT MIN(finished_ms) FROM jobs WHERE open = 0 AND finished_ms IS NOT NULL")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// Ended jobs with nothing left to do, oldest end first.
pub(super) fn ended(connection: &Connection) -> Result<Vec<EndedJob>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, finished_ms, COALESCE(artifact_bytes, 0) + stdout_bytes - stdout_dropped + stderr_bytes \
         - stderr_dropped + recording_bytes + journal_bytes + audit_bytes FROM jobs WHERE open = 0 AND finished_ms IS NOT NULL ORDER BY finished_ms, number",
    )?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id = damaged(JobId::parse(row.get_ref(0)?.as_str().unwrap_or_default()), "job id")?;
        found.push(EndedJob { id, finished_ms: row.get(1)?, bytes: row.get(2)? });
    }
    Ok(found)
}

/// Ids that begin with a prefix: a range of the index of ids.
pub(super) fn ids_beginning(
    connection: &Connection,
    prefix: &JobIdPrefix,
    limit: usize,
) -> Result<Vec<JobId>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM jobs WHERE id >= ?1 AND id < ?2 AND delete_requested = 0 ORDER BY id LIMIT ?3",
    )?;
    // `{` follows `z`, the last letter of ids.
    let mut rows = statement.query(params![prefix.as_str(), format!("{prefix}{{"), limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(damaged(JobId::parse(row.get_ref(0)?.as_str().unwrap_or_default()), "job id")?);
    }
    Ok(found)
}

/// Returns the ids of all jobs, including those that are being deleted.
pub(super) fn all_ids(connection: &Connection) -> Result<Vec<JobId>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT id FROM jobs")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(damaged(JobId::parse(row.get_ref(0)?.as_str().unwrap_or_default()), "job id")?);
    }
    Ok(found)
}

/// The number of a stream in the table.
pub(super) fn stream_number(stream: OutputStream) -> i64 {
    match stream {
        OutputStream::Stdout => 1,
        OutputStream::Stderr => 2,
    }
}
