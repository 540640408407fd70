//! A group as statements. Rows of one table that are only added go in one statement, whatever their jobs.

use sandyard_protocol::OutputStream;

use super::added_texts;
use super::codecs::SqlStep;
use super::codecs::SqlValue;
use super::columns;
use super::group::{GroupAdditions, GroupRow, WriteGroup};
use super::sandboxes;
use super::totals::TotalsChange;
use crate::job::{JobId, SandboxRow};
use crate::store::StoreError;
use crate::store::rules::LeasedJob;
use crate::store::values::text;

const ADD_FILES: &str = "INSERT INTO request_files (job, place, path, bytes) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[])";
const ADD_KEYS: &str = "INSERT INTO idempotency_keys (key_sha256, body_sha256, job) \
    SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[])";
const ADD_EVENTS: &str = "INSERT INTO events (job, id, kind, at_ms, data) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::text[])";
const ADD_CHUNKS: &str = "INSERT INTO chunks (job, stream, number, place, length, bytes) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])";
const ADD_ENTRIES: &str = "INSERT INTO journal (job, number, kind, at_ms, incarnation, entry) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[])";
/// The primary key rejects a second record of the same number, which would fork the chain.
const ADD_AUDIT: &str = "INSERT INTO audit (job, number, record) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])";
const ADD_YARD_AUDIT: &str =
    "INSERT INTO yard_audit (number, record) SELECT * FROM unnest($1::bigint[], $2::text[])";
pub(super) const PUT_YARD_END: &str = "INSERT INTO yard_audit_end (place, audit) VALUES ($1, $2)";
const DELETE_YARD_END: &str = "DELETE FROM yard_audit_end WHERE place = $1";
const DROP_CHUNKS: &str =
    "DELETE FROM chunks WHERE job = $1 AND stream = $2 AND number >= $3 AND number < $4";
const DROP_FILES: &str = "DELETE FROM request_files WHERE job = ANY($1)";
/// Every row of jobs.
pub(super) const REMOVE: &str = "WITH gone AS (SELECT unnest($1::bigint[]) AS job), \
    a AS (DELETE FROM events USING gone WHERE events.job = gone.job), \
    b AS (DELETE FROM chunks USING gone WHERE chunks.job = gone.job), \
    c AS (DELETE FROM journal USING gone WHERE journal.job = gone.job), \
    j AS (DELETE FROM texts USING gone WHERE texts.job = gone.job), \
    d AS (DELETE FROM audit USING gone WHERE audit.job = gone.job), \
    e AS (DELETE FROM requests USING gone WHERE requests.job = gone.job), \
    f AS (DELETE FROM request_files USING gone WHERE request_files.job = gone.job), \
    g AS (DELETE FROM idempotency_keys USING gone WHERE idempotency_keys.job = gone.job), \
    h AS (DELETE FROM job_states USING gone WHERE job_states.number = gone.job), \
    i AS (DELETE FROM job_progress USING gone WHERE job_progress.number = gone.job) \
    DELETE FROM jobs USING gone WHERE jobs.number = gone.job";

/// The number of a stream in the table.
pub(super) fn stream_number(stream: OutputStream) -> i64 {
    match stream {
        OutputStream::Stdout => 1,
        OutputStream::Stderr => 2,
    }
}

/// The statements that write a group.
pub(super) fn steps(group: &WriteGroup<'_>) -> Result<Vec<SqlStep>, StoreError> {
    let mut steps = Vec::new();
    for job in group.jobs.values() {
        put_job(&mut steps, job, group)?;
    }
    put_sandboxes(&mut steps, group)?;
    add_requests(&mut steps, &group.additions);
    add_rows(&mut steps, &group.additions);
    steps.extend(added_texts::step(&group.additions.texts));
    put_yard_audit(&mut steps, group)?;
    let (dropped, removed) = (&group.additions.dropped_files, &group.additions.removed);
    if !dropped.is_empty() {
        steps.push((DROP_FILES.into(), vec![SqlValue::Integers(dropped.clone())]));
    }
    // Last: rows that the group has added to such a job go too.
    if !removed.is_empty() {
        steps.push((REMOVE.into(), vec![SqlValue::Integers(removed.clone())]));
    }
    Ok(steps)
}

fn put_job(
    steps: &mut Vec<SqlStep>,
    job: &GroupRow<LeasedJob>,
    group: &WriteGroup<'_>,
) -> Result<(), StoreError> {
    let Some(present) = &job.present else { return Ok(()) };
    let number = SqlValue::Integer(present.row.number);
    let Some(stored) = &job.stored else {
        let request = group.additions.requests.get(&present.row.number).cloned().unwrap_or_default();
        let values = columns::insert_values(present, group.place(), request)?;
        steps.push((columns::INSERT.clone(), values));
        return Ok(());
    };
    let state = columns::state_values(present, group.place())?;
    // A row that has not changed is not written: that is what the two tables are for.
    if state != columns::state_values(stored, group.place())? {
        steps.push((columns::UPDATE_STATE.clone(), [vec![number.clone()], state].concat()));
    }
    let progress = columns::progress_values(&present.row)?;
    if progress != columns::progress_values(&stored.row)? {
        steps.push((columns::UPDATE_PROGRESS.clone(), [vec![number], progress].concat()));
    }
    Ok(())
}

fn put_sandboxes(steps: &mut Vec<SqlStep>, group: &WriteGroup<'_>) -> Result<(), StoreError> {
    let is_changed = |row: &&GroupRow<SandboxRow>| row.present != row.stored;
    let mut gone = Vec::new();
    for sandbox in group.sandboxes.values().filter(is_changed) {
        match (&sandbox.present, &sandbox.stored) {
            (Some(row), _) => steps.push((sandboxes::PUT.into(), sandboxes::values(row, group.place())?)),
            (None, Some(row)) => gone.push(row.id.as_str().to_owned()),
            (None, None) => {}
        }
    }
    if !gone.is_empty() {
        steps.push((sandboxes::DELETE.into(), vec![SqlValue::Texts(gone)]));
    }
    Ok(())
}

fn add_requests(steps: &mut Vec<SqlStep>, additions: &GroupAdditions) {
    let files = &additions.files;
    if !files.is_empty() {
        let values = vec![
            SqlValue::Integers(files.iter().map(|(job, ..)| *job).collect()),
            SqlValue::Integers(files.iter().map(|(_, place, ..)| to_i64(*place as u64)).collect()),
            SqlValue::Texts(files.iter().map(|(.., path, _)| path.clone()).collect()),
            SqlValue::MaybeBytes(files.iter().map(|(.., bytes)| Some(bytes.clone())).collect()),
        ];
        steps.push((ADD_FILES.into(), values));
    }
    let keys = &additions.keys;
    if !keys.is_empty() {
        let values = vec![
            SqlValue::MaybeBytes(keys.iter().map(|(key, _)| Some(key.to_vec())).collect()),
            SqlValue::MaybeBytes(keys.iter().map(|(_, found)| Some(found.body_sha256.to_vec())).collect()),
            SqlValue::Integers(keys.iter().map(|(_, found)| found.job).collect()),
        ];
        steps.push((ADD_KEYS.into(), values));
    }
}

/// Rows that are never changed: events, chunks, entries and records, of all jobs together.
fn add_rows(steps: &mut Vec<SqlStep>, additions: &GroupAdditions) {
    let applied = &additions.applied;
    let events: Vec<_> =
        applied.iter().flat_map(|(job, of)| of.events.iter().map(|event| (*job, event))).collect();
    if !events.is_empty() {
        let values = vec![
            SqlValue::Integers(events.iter().map(|(job, _)| *job).collect()),
            SqlValue::Integers(events.iter().map(|(_, event)| to_i64(event.id)).collect()),
            SqlValue::Texts(events.iter().map(|(_, event)| event.kind.clone()).collect()),
            SqlValue::Integers(events.iter().map(|(_, event)| event.at_ms).collect()),
            SqlValue::Texts(events.iter().map(|(_, event)| event.data.to_string()).collect()),
        ];
        steps.push((ADD_EVENTS.into(), values));
    }
    add_chunks(steps, additions);
    let entries: Vec<_> =
        applied.iter().flat_map(|(job, of)| of.journal.iter().map(|entry| (*job, entry))).collect();
    if !entries.is_empty() {
        let values = vec![
            SqlValue::Integers(entries.iter().map(|(job, _)| *job).collect()),
            SqlValue::Integers(entries.iter().map(|(_, entry)| to_i64(entry.number)).collect()),
            SqlValue::Texts(entries.iter().map(|(_, entry)| entry.kind.to_owned()).collect()),
            SqlValue::Integers(entries.iter().map(|(_, entry)| entry.at_ms).collect()),
            SqlValue::Integers(entries.iter().map(|(_, entry)| entry.incarnation.into()).collect()),
            SqlValue::Texts(entries.iter().map(|(_, entry)| entry.text.clone()).collect()),
        ];
        steps.push((ADD_ENTRIES.into(), values));
    }
    let of_commits = applied.iter().flat_map(|(job, of)| of.audit.iter().map(|line| (*job, line)));
    let lines: Vec<_> = of_commits.chain(additions.audit.iter().map(|(job, line)| (*job, line))).collect();
    if !lines.is_empty() {
        let values = vec![
            SqlValue::Integers(lines.iter().map(|(job, _)| *job).collect()),
            SqlValue::Integers(lines.iter().map(|(_, line)| to_i64(line.number)).collect()),
            SqlValue::Texts(lines.iter().map(|(_, line)| line.text.clone()).collect()),
        ];
        steps.push((ADD_AUDIT.into(), values));
    }
}

fn add_chunks(steps: &mut Vec<SqlStep>, additions: &GroupAdditions) {
    let applied = &additions.applied;
    let chunks: Vec<_> =
        applied.iter().flat_map(|(job, of)| of.chunks.iter().map(|chunk| (*job, chunk))).collect();
    if !chunks.is_empty() {
        let values = vec![
            SqlValue::Integers(chunks.iter().map(|(job, _)| *job).collect()),
            SqlValue::Integers(chunks.iter().map(|(_, chunk)| stream_number(chunk.stream)).collect()),
            SqlValue::Integers(chunks.iter().map(|(_, chunk)| to_i64(chunk.number)).collect()),
            SqlValue::Integers(chunks.iter().map(|(_, chunk)| to_i64(chunk.offset)).collect()),
            SqlValue::Integers(chunks.iter().map(|(_, chunk)| to_i64(chunk.length)).collect()),
            SqlValue::MaybeBytes(
                chunks.iter().map(|(_, chunk)| chunk.inline.as_ref().map(|bytes| bytes.to_vec())).collect(),
            ),
        ];
        steps.push((ADD_CHUNKS.into(), values));
    }
    // In the same commit that counts them as dropped: a reader never finds a gap that the row does not explain.
    for (job, of) in applied {
        for (stream, first, end) in &of.dropped {
            let values = vec![
                SqlValue::Integer(*job),
                SqlValue::Integer(stream_number(*stream)),
                SqlValue::count(*first),
                SqlValue::count(*end),
            ];
            steps.push((DROP_CHUNKS.into(), values));
        }
    }
}

fn put_yard_audit(steps: &mut Vec<SqlStep>, group: &WriteGroup<'_>) -> Result<(), StoreError> {
    let lines = &group.additions.yard_lines;
    if !lines.is_empty() {
        let values = vec![
            SqlValue::Integers(lines.iter().map(|line| to_i64(line.number)).collect()),
            SqlValue::Texts(lines.iter().map(|line| line.text.clone()).collect()),
        ];
        steps.push((ADD_YARD_AUDIT.into(), values));
    }
    let Some(end) = group.yard.as_ref().filter(|end| end.present != end.stored) else { return Ok(()) };
    let Some((_, audit)) = &end.present else { return Ok(()) };
    let stored = end.stored.as_ref().map(|(place, _)| *place);
    let audit = SqlValue::Text(text(audit, "yard audit")?);
    steps.push((PUT_YARD_END.into(), vec![SqlValue::Integer(stored.unwrap_or(0) + 1), audit]));
    steps.extend(stored.map(|place| (DELETE_YARD_END.into(), vec![SqlValue::Integer(place)])));
    Ok(())
}

/// Jobs in one announcement, which may have 8000 bytes.
const ANNOUNCED_JOBS: usize = 200;

/// The announcements of a commit for other servers: who, in which transaction, the change of the totals, and the jobs.
pub(super) fn announcements(group: &WriteGroup<'_>, transaction: u64) -> Vec<String> {
    let change = group.totals.encode();
    let names: Vec<&str> = group.touched.iter().map(JobId::as_str).collect();
    let mut pages: Vec<&[&str]> = names.chunks(ANNOUNCED_JOBS).collect();
    if pages.is_empty() && group.totals != TotalsChange::default() {
        pages.push(&[]);
    }
    let first = |page: usize| if page == 0 { change.as_str() } else { "" };
    pages
        .iter()
        .enumerate()
        .map(|(page, jobs)| {
            format!("{}|{transaction}|{}|{}", group.tools.server, first(page), jobs.join(","))
        })
        .collect()
}

fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
