//! Texts that are kept behind journals.

use sandyard_protocol::limits;

use super::{StoreRules, known};
use crate::job::{JobId, JobRow, NewText, NewTextBody, TextRow};
use crate::store::StoreError;

/// Bytes that a row takes beside the text.
const ROW_BYTES: u64 = 100;
/// Texts have the room of a journal up to this size, so that they never take the last of it.
const MOST_BYTES: u64 = limits::JOURNAL_BYTES / 2;

/// The write of texts: their rows, and in the job's row their number, the bytes of the journal and the revision.
#[derive(Debug)]
pub(crate) struct TextsWrite {
    pub(crate) row: JobRow,
    pub(crate) kept_bytes_before: u64,
    /// With the place of their bytes; without one, the bytes are lost for want of room.
    pub(crate) texts: Vec<(TextRow, Option<NewTextBody>)>,
}

impl StoreRules<'_> {
    /// Keeps texts of a job; `None` if it is unknown. With an epoch, only for its owner, and for the entry that it appends next.
    pub(crate) fn keep_texts(
        &self,
        found: Option<JobRow>,
        id: &JobId,
        epoch: Option<u64>,
        texts: Vec<NewText>,
    ) -> Result<Option<TextsWrite>, StoreError> {
        let Some(mut row) = known(found) else { return Ok(None) };
        if epoch.is_some_and(|epoch| epoch != row.epoch) {
            return Err(StoreError::Stale(id.clone()));
        }
        let kept_bytes_before = row.kept_bytes();
        let last = row.task.as_ref().map_or(0, |task| task.entries);
        let entry = if epoch.is_some() { last + 1 } else { last };
        let mut written = Vec::with_capacity(texts.len());
        for NewText { origin, path, digest, bytes, body } in texts {
            let stored = body.stored_bytes();
            let fits = row.journal_bytes + stored + ROW_BYTES <= MOST_BYTES;
            row.texts += 1;
            row.journal_bytes += ROW_BYTES + if fits { stored } else { 0 };
            let at_ms = self.now.wall_ms;
            let text = TextRow { number: row.texts, entry, origin, path, at_ms, digest, bytes };
            written.push((text, fits.then_some(body)));
        }
        // As for a note: nobody is woken, and caches compare the revision.
        row.revision += 1;
        Ok(Some(TextsWrite { row, kept_bytes_before, texts: written }))
    }
}
