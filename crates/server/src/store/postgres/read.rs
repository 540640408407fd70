//! Reads: short, indexed, on connections of their own.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use sandyard_api::JobIdPrefix;
use sandyard_protocol::{JournalRow, OutputStream};
use tokio_postgres::Row;

use super::codecs::{PostgresColumns, SqlValue, word};
use super::columns;
use super::flush::stream_number;
use super::readers::Readers;
use crate::audit::AuditLine;
use crate::job::{ChunkRow, EventRow, InputFile, JobFilter, JobId, JobRow, JobState};
use crate::store::sealing::{StoreSealer, file_place, request_place};
use crate::store::values::damaged;
use crate::store::{AuditOf, EndedJob, StoreError, StoredRequest};

static QUEUED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}s.state = 'queued' AND NOT s.delete_requested AND s.number > $1 ORDER BY s.number LIMIT $2",
        *columns::SELECT
    )
});
static OPEN: LazyLock<String> = LazyLock::new(|| format!("{}s.open ORDER BY s.number", *columns::SELECT));
static LISTED: LazyLock<String> = LazyLock::new(|| {
    format!("{}NOT s.delete_requested AND j.number < $1 ORDER BY j.number DESC LIMIT $2", *columns::SELECT)
});
static LISTED_KIND: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}NOT s.delete_requested AND j.number < $1 AND j.kind = $3 ORDER BY j.number DESC LIMIT $2",
        *columns::SELECT
    )
});
static LISTED_STATE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}NOT s.delete_requested AND s.number < $1 AND s.state = $3 AND j.kind = COALESCE($4, j.kind) \
         ORDER BY s.number DESC LIMIT $2",
        *columns::SELECT
    )
});
const CURRENT: &str = "SELECT 1 FROM jobs j JOIN job_states s USING (number) JOIN job_progress p USING (number) \
    WHERE j.id = $1 AND p.revision = $2 AND NOT s.delete_requested";
const REQUEST: &str =
    "SELECT r.request, r.job FROM requests r JOIN jobs j ON j.number = r.job WHERE j.id = $1";
const REQUEST_FILES: &str = "SELECT place, path, bytes FROM request_files WHERE job = $1 ORDER BY place";
const EVENTS: &str = "SELECT id, kind, at_ms, data FROM events \
    WHERE job = (SELECT number FROM jobs WHERE id = $1) AND id > $2 AND ($4::text IS NULL OR kind = $4) ORDER BY id LIMIT $3";
const CHUNKS: &str = "SELECT number, place, length, bytes FROM chunks \
    WHERE job = $1 AND stream = $2 AND number >= $3 ORDER BY number LIMIT $4";
/// From the end backwards, one more than reach behind the offset at most.
const CHUNKS_AFTER: &str = "SELECT number, place, length, bytes FROM chunks \
    WHERE job = $1 AND stream = $2 AND number >= COALESCE((SELECT number FROM chunks \
    WHERE job = $1 AND stream = $2 AND place + length <= $3 ORDER BY number DESC LIMIT 1), 0) \
    AND place + length > $3 ORDER BY number";
const AUDIT: &str =
    "SELECT number, record FROM audit WHERE job = $1 AND number >= $2 ORDER BY number LIMIT $3";
const YARD_AUDIT: &str = "SELECT number, record FROM yard_audit WHERE number >= $1 ORDER BY number LIMIT $2";
/// `$4` bounds the bytes before an entry, so that the one that reaches it is the last.
const JOURNAL: &str = "SELECT number, at_ms, incarnation, entry FROM ( \
    SELECT *, COALESCE(SUM(octet_length(entry)) OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) \
    AS before FROM (SELECT * FROM journal WHERE job = $1 AND number >= $2 ORDER BY number LIMIT $3) page) summed \
    WHERE before < $4 ORDER BY number";
const OLDEST_END: &str = "SELECT MIN(finished_ms) FROM job_states WHERE NOT open AND finished_ms IS NOT NULL";
const ENDED: &str = "SELECT j.id, s.finished_ms, COALESCE(s.artifact_bytes, 0) + p.stdout_bytes - p.stdout_dropped \
    + p.stderr_bytes - p.stderr_dropped + p.recording_bytes + p.journal_bytes + p.audit_bytes \
    FROM job_states s JOIN jobs j USING (number) JOIN job_progress p USING (number) \
    WHERE NOT s.open AND s.finished_ms IS NOT NULL ORDER BY s.finished_ms, s.number";
const ALL_IDS: &str = "SELECT id FROM jobs";
/// A range of the index of ids, which are in the order of their bytes.
const IDS_BEGINNING: &str = "SELECT j.id FROM jobs j JOIN job_states s USING (number) \
    WHERE j.id >= $1 AND j.id < $2 AND NOT s.delete_requested ORDER BY j.id LIMIT $3";

fn limited(limit: usize) -> SqlValue {
    SqlValue::Integer(i64::try_from(limit).unwrap_or(i64::MAX))
}

fn rows(found: &[Row]) -> Result<Vec<JobRow>, StoreError> {
    found.iter().map(columns::read).collect()
}

pub(super) async fn job(readers: &Readers, id: &JobId) -> Result<Option<JobRow>, StoreError> {
    let found = readers.query_one(&columns::BY_ID, &[SqlValue::text(id.as_str())]).await?;
    found.as_ref().map(columns::read).transpose()
}

pub(super) async fn is_current(readers: &Readers, id: &JobId, revision: u64) -> Result<bool, StoreError> {
    let values = [SqlValue::text(id.as_str()), SqlValue::count(revision)];
    Ok(readers.query_one(CURRENT, &values).await?.is_some())
}

pub(super) async fn queued(readers: &Readers, after: i64, limit: usize) -> Result<Vec<JobRow>, StoreError> {
    rows(&readers.query(&QUEUED, &[SqlValue::Integer(after), limited(limit)]).await?)
}

pub(super) async fn open_jobs(readers: &Readers) -> Result<Vec<JobRow>, StoreError> {
    rows(&readers.query(&OPEN, &[]).await?)
}

/// A page of jobs, newest first. Each wanted state is a query of its own, which an index answers in order.
pub(super) async fn list(
    readers: &Readers,
    filter: &JobFilter,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<JobRow>, StoreError> {
    let page = vec![SqlValue::Integer(before.unwrap_or(i64::MAX)), limited(limit)];
    let kind = filter.kind.map_or(SqlValue::Null, |kind| SqlValue::text(kind.as_str()));
    if filter.states.is_empty() {
        return match kind {
            SqlValue::Null => rows(&readers.query(&LISTED, &page).await?),
            kind => rows(&readers.query(&LISTED_KIND, &[page, vec![kind]].concat()).await?),
        };
    }
    let of_state = |state: &JobState| {
        let values = [page.clone(), vec![SqlValue::text(state.as_str()), kind.clone()]].concat();
        async move { readers.query(&LISTED_STATE, &values).await }
    };
    let mut found = BTreeMap::new();
    for page in futures_util::future::try_join_all(filter.states.iter().map(of_state)).await? {
        // A job that moved between two of the queries is listed once.
        found.extend(rows(&page)?.into_iter().map(|row| (row.number, row)));
    }
    Ok(found.into_values().rev().take(limit).collect())
}

/// Returns the request of a job, with its files.
pub(super) async fn request(
    readers: &Readers,
    sealer: &StoreSealer,
    id: &JobId,
) -> Result<Option<StoredRequest>, StoreError> {
    let Some(found) = readers.query_one(REQUEST, &[SqlValue::text(id.as_str())]).await? else {
        return Ok(None);
    };
    let (sealed, number): (&[u8], i64) = (found.try_get(0)?, found.try_get(1)?);
    let request = sealer.open(&request_place(number), sealed);
    let job = request.and_then(|json| serde_json::from_slice(&json).ok());
    let mut files = Vec::new();
    for row in readers.query(REQUEST_FILES, &[SqlValue::Integer(number)]).await? {
        let mut columns = PostgresColumns::new(&row);
        let (place, path): (usize, String) = (columns.take("request file")?, columns.take("request file")?);
        let sealed: Vec<u8> = columns.take("request file")?;
        let bytes = damaged(sealer.open(&file_place(number, place), &sealed), "request file")?;
        files.push(InputFile { path, bytes });
    }
    Ok(Some(StoredRequest { job: damaged(job, "request")?, files }))
}

/// Events of a job above an id, all or those of one kind.
pub(super) async fn events(
    readers: &Readers,
    id: &JobId,
    kind: Option<&str>,
    after: u64,
    limit: usize,
) -> Result<Vec<EventRow>, StoreError> {
    let (id, kind) = (SqlValue::text(id.as_str()), SqlValue::maybe_text(kind));
    let values = [id, SqlValue::count(after), limited(limit), kind];
    let mut found = Vec::new();
    for row in readers.query(EVENTS, &values).await? {
        let mut columns = PostgresColumns::new(&row);
        found.push(EventRow {
            id: columns.take("event")?,
            kind: columns.take("event")?,
            at_ms: columns.take("event")?,
            data: super::codecs::json::take(&mut columns, "event")?,
        });
    }
    Ok(found)
}

/// Chunks of a stream from a number on.
pub(super) async fn chunks(
    readers: &Readers,
    job: i64,
    stream: OutputStream,
    from: u64,
    limit: usize,
) -> Result<Vec<ChunkRow>, StoreError> {
    let stream_value = SqlValue::Integer(stream_number(stream));
    let values = [SqlValue::Integer(job), stream_value, SqlValue::count(from), limited(limit)];
    readers.query(CHUNKS, &values).await?.iter().map(|row| chunk(stream, row)).collect()
}

/// Chunks of the end of a stream, down to an offset, in order.
pub(super) async fn chunks_after(
    readers: &Readers,
    job: i64,
    stream: OutputStream,
    offset: u64,
) -> Result<Vec<ChunkRow>, StoreError> {
    let values = [SqlValue::Integer(job), SqlValue::Integer(stream_number(stream)), SqlValue::count(offset)];
    readers.query(CHUNKS_AFTER, &values).await?.iter().map(|row| chunk(stream, row)).collect()
}

fn chunk(stream: OutputStream, row: &Row) -> Result<ChunkRow, StoreError> {
    let mut columns = PostgresColumns::new(row);
    Ok(ChunkRow {
        stream,
        number: columns.take("chunk")?,
        offset: columns.take("chunk")?,
        length: columns.take("chunk")?,
        inline: columns.take::<Option<Vec<u8>>>("chunk")?.map(Into::into),
    })
}

/// Records of an audit from a number on.
pub(super) async fn audit(
    readers: &Readers,
    of: AuditOf,
    first: u64,
    limit: usize,
) -> Result<Vec<AuditLine>, StoreError> {
    let page = vec![SqlValue::count(first), limited(limit)];
    let found = match of {
        AuditOf::Job(job) => readers.query(AUDIT, &[vec![SqlValue::Integer(job)], page].concat()).await?,
        AuditOf::Yard => readers.query(YARD_AUDIT, &page).await?,
    };
    let line = |row: &Row| {
        let mut columns = PostgresColumns::new(row);
        Ok(AuditLine { number: columns.take("audit record")?, text: columns.take("audit record")? })
    };
    found.iter().map(line).collect()
}

/// Entries of a job's journal from a number on; the last one may exceed `bytes`, so that there is always one.
pub(super) async fn journal(
    readers: &Readers,
    job: i64,
    first: u64,
    limit: usize,
    bytes: usize,
) -> Result<Vec<JournalRow>, StoreError> {
    let values = [SqlValue::Integer(job), SqlValue::count(first), limited(limit), limited(bytes.max(1))];
    let mut found = Vec::new();
    for row in readers.query(JOURNAL, &values).await? {
        let mut columns = PostgresColumns::new(&row);
        found.push(JournalRow {
            number: columns.take("journal entry")?,
            at_ms: columns.take("journal entry")?,
            incarnation: columns.take("journal entry")?,
            entry: super::codecs::json::take(&mut columns, "journal entry")?,
        });
    }
    Ok(found)
}

/// When the job that ended first of those that are left ended.
pub(super) async fn oldest_end(readers: &Readers) -> Result<Option<i64>, StoreError> {
    let found = readers.query_one(OLDEST_END, &[]).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?.flatten())
}

/// Ended jobs with nothing left to do, oldest end first.
pub(super) async fn ended(readers: &Readers) -> Result<Vec<EndedJob>, StoreError> {
    let mut found = Vec::new();
    for row in readers.query(ENDED, &[]).await? {
        let mut columns = PostgresColumns::new(&row);
        found.push(EndedJob {
            id: word::take(&mut columns, "job id")?,
            finished_ms: columns.take("end of a job")?,
            bytes: columns.take("size of a job")?,
        });
    }
    Ok(found)
}

/// Ids that begin with a prefix.
pub(super) async fn ids_beginning(
    readers: &Readers,
    prefix: &JobIdPrefix,
    limit: usize,
) -> Result<Vec<JobId>, StoreError> {
    // `{` follows `z`, the last letter of ids.
    let end = SqlValue::Text(format!("{prefix}{{"));
    let found = readers.query(IDS_BEGINNING, &[SqlValue::text(prefix.as_str()), end, limited(limit)]).await?;
    found.iter().map(|row| word::take(&mut PostgresColumns::new(row), "job id")).collect()
}

/// Returns the ids of all jobs, including those that are being deleted.
pub(super) async fn all_ids(readers: &Readers) -> Result<Vec<JobId>, StoreError> {
    let found = readers.query(ALL_IDS, &[]).await?;
    found.iter().map(|row| word::take(&mut PostgresColumns::new(row), "job id")).collect()
}
