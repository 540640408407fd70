//! Journals of tasks: entries added by a loop, where it expects them, and by people, whenever they speak.

use rusqlite::params;
use sandyard_protocol::{JournalEntry, limits};

use super::columns;
use super::read;
use super::write::{self, Now};
use super::writer::Writing;
use crate::audit::AuditEntry;
use crate::job::JobId;
use crate::job::JobState;
use crate::job::apply::NewEntry;
use crate::job::{Change, Fence, JobRow};
use crate::store::{Appended, Said, StoreError};

/// Room that is left for the last words of a loop whose journal is full.
const LAST_ENTRIES: u64 = 8;

pub(super) fn append(
    writing: &mut Writing<'_>,
    now: Now,
    fence: &Fence,
    number: u64,
    entry: Box<JournalEntry>,
) -> Result<Appended, StoreError> {
    let row = write::owned(writing, fence)?;
    let Some(task) = &row.task else { return Ok(Appended::Ended) };
    let text = columns::text(&entry, "journal entry")?;
    match place(writing, &row, task.entries, number, &text)? {
        Place::Kept(number) => return Ok(Appended::Kept { number }),
        Place::Taken => return Ok(Appended::NumberTaken),
        Place::Free => {}
    }
    if !matches!(row.state, JobState::Running | JobState::Waiting | JobState::Starting) {
        return Ok(Appended::Ended);
    }
    if is_full(&row, task.entries, &text, &entry) {
        return Ok(Appended::Full);
    }
    let row = write::change(writing, now, row, vec![Change::Journal(entry)])?;
    Ok(Appended::Kept { number: row.task.map_or(0, |task| task.entries) })
}

/// Where an entry belongs that is expected under a number.
enum Place {
    /// Behind everything.
    Free,
    /// It is there already.
    Kept(u64),
    /// Something else is.
    Taken,
}

/// What was said takes numbers that a loop could not know of, and is passed over.
fn place(
    writing: &Writing<'_>,
    row: &JobRow,
    entries: u64,
    number: u64,
    text: &str,
) -> Result<Place, StoreError> {
    if number == 0 || number > entries + 1 {
        return Ok(Place::Taken);
    }
    let mut statement = writing.connection.prepare_cached(
        "SELECT number, entry = ?3 FROM journal WHERE job = ?1 AND number >= ?2 AND kind <> 'said' ORDER BY number LIMIT 1",
    )?;
    let mut rows = statement.query(params![row.number, number, text])?;
    match rows.next()? {
        None => Ok(Place::Free),
        Some(found) if found.get(1)? => Ok(Place::Kept(found.get(0)?)),
        Some(_) => Ok(Place::Taken),
    }
}

fn is_full(row: &JobRow, entries: u64, text: &str, entry: &JournalEntry) -> bool {
    let last_words = matches!(entry, JournalEntry::Finished { .. } | JournalEntry::GaveUp { .. });
    if last_words {
        return entries >= limits::JOURNAL_ENTRIES + LAST_ENTRIES;
    }
    entries >= limits::JOURNAL_ENTRIES || row.journal_bytes + text.len() as u64 > limits::JOURNAL_BYTES
}

pub(super) fn say(
    writing: &mut Writing<'_>,
    now: Now,
    id: &JobId,
    said: Box<JournalEntry>,
    entry: AuditEntry,
) -> Result<Said, StoreError> {
    let Some(row) = read::job(writing.connection, id)?.filter(|row| !row.delete_requested) else {
        return Ok(Said::Unknown);
    };
    let listens = matches!(row.state, JobState::Running | JobState::Waiting) && !row.cancel_requested;
    let Some(task) = row.task.as_ref().filter(|_| listens) else { return Ok(Said::Deaf(Box::new(row))) };
    let text = columns::text(&said, "journal entry")?;
    if is_full(&row, task.entries, &text, &said) {
        return Ok(Said::Deaf(Box::new(row)));
    }
    let row = write::change(writing, now, row, vec![Change::Audit(entry), Change::Journal(said)])?;
    Ok(Said::Kept(Box::new(row)))
}

/// Writes one entry.
pub(super) fn insert(writing: &Writing<'_>, job: i64, entry: &NewEntry) -> Result<(), StoreError> {
    writing
        .connection
        .prepare_cached(
            "INSERT INTO journal (job, number, kind, at_ms, incarnation, entry) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![job, entry.number, entry.kind, entry.at_ms, entry.incarnation, entry.text])?;
    Ok(())
}
