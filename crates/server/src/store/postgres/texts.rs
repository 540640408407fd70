//! Rows of kept texts.

use async_trait::async_trait;
use sandyard_memory::{ContentDigest, SourceOrigin};
use tokio_postgres::Row;

use super::codecs::{PostgresColumns, SqlValue};
use super::group::{WantedRows, WriteGroup};
use super::readers::Readers;
use super::writer::GroupedWrite;
use crate::job::{JobId, NewText, StoredText, TextRow};
use crate::store::StoreError;
use crate::store::values::damaged;
use crate::store::write_weight::WriteWeight;

const FROM: &str = "SELECT number, entry, origin, path, at_ms, digest, bytes FROM texts \
    WHERE job = $1 AND number >= $2 ORDER BY number LIMIT $3";
const AT_ENTRY: &str = "SELECT number, entry, origin, path, at_ms, digest, bytes FROM texts \
    WHERE job = $1 AND entry = $2 ORDER BY number LIMIT $3";
const OF_PATH: &str = "SELECT number, entry, origin, path, at_ms, digest, bytes FROM texts \
    WHERE job = $1 AND path = $2 AND entry < $3 ORDER BY number DESC LIMIT $4";
const BODY: &str = "SELECT packed FROM texts WHERE job = $1 AND digest = $2 AND (packed IS NOT NULL OR in_blob = 1) \
    ORDER BY number LIMIT 1";
pub(super) struct KeepTexts {
    pub(super) id: JobId,
    pub(super) epoch: Option<u64>,
    pub(super) texts: Vec<NewText>,
}

#[async_trait]
impl GroupedWrite for KeepTexts {
    type Answer = Option<()>;

    fn weight(&self) -> WriteWeight {
        WriteWeight::Light
    }

    fn want(&self, wanted: &mut WantedRows) {
        wanted.jobs.insert(self.id.clone());
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Option<()>, StoreError> {
        let found = group.job(&self.id).await?;
        let decision = group.rules().keep_texts(found, &self.id, self.epoch, self.texts.clone())?;
        let Some(write) = decision else { return Ok(None) };
        let number = write.row.number;
        let texts = write.texts.into_iter().map(|(text, body)| (number, text, body));
        group.additions.texts.extend(texts);
        group.save_note(write.row, write.kept_bytes_before, Vec::new());
        Ok(Some(()))
    }
}

fn limited(limit: usize) -> SqlValue {
    SqlValue::Integer(i64::try_from(limit).unwrap_or(i64::MAX))
}

/// Texts from a number on.
pub(super) async fn from(
    readers: &Readers,
    job: i64,
    first: u64,
    limit: usize,
) -> Result<Vec<TextRow>, StoreError> {
    let values = [SqlValue::Integer(job), SqlValue::count(first), limited(limit)];
    readers.query(FROM, &values).await?.iter().map(text).collect()
}

/// Texts of a journal entry.
pub(super) async fn at_entry(
    readers: &Readers,
    job: i64,
    entry: u64,
    limit: usize,
) -> Result<Vec<TextRow>, StoreError> {
    let values = [SqlValue::Integer(job), SqlValue::count(entry), limited(limit)];
    readers.query(AT_ENTRY, &values).await?.iter().map(text).collect()
}

/// Texts of a path from before an entry, newest first.
pub(super) async fn of_path(
    readers: &Readers,
    job: i64,
    path: &str,
    before: u64,
    limit: usize,
) -> Result<Vec<TextRow>, StoreError> {
    let values = [SqlValue::Integer(job), SqlValue::text(path), SqlValue::count(before), limited(limit)];
    readers.query(OF_PATH, &values).await?.iter().map(text).collect()
}

fn text(row: &Row) -> Result<TextRow, StoreError> {
    const WHAT: &str = "kept text";
    let mut columns = PostgresColumns::new(row);
    let (number, entry) = (columns.take(WHAT)?, columns.take(WHAT)?);
    let origin: u32 = columns.take(WHAT)?;
    let origin = u8::try_from(origin).ok().and_then(SourceOrigin::from_byte);
    let (path, at_ms) = (columns.take(WHAT)?, columns.take(WHAT)?);
    let digest: Vec<u8> = columns.take(WHAT)?;
    let digest = damaged(digest.try_into().ok(), WHAT).map(ContentDigest::from_bytes)?;
    Ok(TextRow {
        number,
        entry,
        origin: damaged(origin, WHAT)?,
        path,
        at_ms,
        digest,
        bytes: columns.take(WHAT)?,
    })
}

/// Where the bytes of a text are.
pub(super) async fn body(
    readers: &Readers,
    job: i64,
    digest: ContentDigest,
) -> Result<Option<StoredText>, StoreError> {
    let values = [SqlValue::Integer(job), SqlValue::Bytes(digest.to_bytes().to_vec())];
    let Some(found) = readers.query_one(BODY, &values).await? else { return Ok(None) };
    let packed: Option<Vec<u8>> = found.try_get(0)?;
    Ok(Some(packed.map_or(StoredText::Blob, |packed| StoredText::Inline(packed.into()))))
}
