//! The sources of a job: the texts of its journal entries, and those that are kept behind them.

use std::collections::HashMap;
use std::sync::Arc;

use sandyard_memory::messages::{KnownSources, TextAnnouncement, text_id, text_number};
use sandyard_memory::{SourceId, SourceOrigin, entry_texts};

use super::texts::KeptTexts;
use crate::job::{JobRow, TextRow};
use crate::store::{Store, StoreError};

/// Entries and texts read at once.
const PAGE_ROWS: usize = 64;
/// Bytes of entries read at once.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Path of the logs of what the model read, which are no memory of the job. Paths of all other texts are relative.
pub(crate) const PACKING_PATH: &str = "/packing";

/// A text with its facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredSource {
    pub(super) origin: SourceOrigin,
    pub(super) path: String,
    pub(super) at_ms: u64,
    pub(super) bytes: Arc<[u8]>,
}

/// Reads the sources of jobs.
#[derive(Clone)]
pub(super) struct JobSources {
    pub(super) store: Arc<dyn Store>,
    pub(super) texts: KeptTexts,
}

/// Sources that were read for one answer. Neighbouring passages often come from the same source.
pub(super) struct StoredSourceCache<'s> {
    sources: &'s JobSources,
    row: &'s JobRow,
    read: HashMap<SourceId, Option<StoredSource>>,
}

impl JobSources {
    /// The next sources behind those that are known, with their bytes; moves `known` past them. An empty page is the end.
    pub(super) async fn next(
        &self,
        row: &JobRow,
        known: &mut KnownSources,
    ) -> Result<Vec<(TextAnnouncement, Arc<[u8]>)>, StoreError> {
        let entries = self.store.journal(row.number, known.entries + 1, PAGE_ROWS, PAGE_BYTES).await?;
        if let Some(last) = entries.last() {
            known.entries = last.number;
            let texts = entries.iter().flat_map(|entry| {
                let at_ms = u64::try_from(entry.at_ms).unwrap_or(0);
                entry_texts(&entry.entry).into_iter().map(move |text| {
                    let id = SourceId { number: entry.number, part: text.part };
                    let bytes: Arc<[u8]> = text.text.as_bytes().into();
                    announced(
                        id,
                        StoredSource { origin: text.origin, path: text.title.into_owned(), at_ms, bytes },
                    )
                })
            });
            return Ok(texts.collect());
        }
        let mut found = Vec::new();
        let texts = self.store.texts(row.number, known.texts + 1, PAGE_ROWS).await?;
        for text in texts {
            known.texts = text.number;
            let Some(id) = text_id(text.entry, text.number).filter(|_| text.path != PACKING_PATH) else {
                continue;
            };
            if let Some(text) = self.kept(row, text).await? {
                found.push(announced(id, text));
            }
        }
        Ok(found)
    }

    /// True if nothing is behind the known sources.
    pub(super) fn is_everything(row: &JobRow, known: &KnownSources) -> bool {
        known.entries >= row.task.as_ref().map_or(0, |task| task.entries) && known.texts >= row.texts
    }

    async fn kept(&self, row: &JobRow, text: TextRow) -> Result<Option<StoredSource>, StoreError> {
        let TextRow { origin, path, at_ms, digest, bytes, .. } = text;
        let read = self.texts.read(&row.id, row.number, digest, bytes).await?;
        let at_ms = u64::try_from(at_ms).unwrap_or(0);
        Ok(read.map(|bytes| StoredSource { origin, path, at_ms, bytes: bytes.into() }))
    }

    async fn one(&self, row: &JobRow, id: SourceId) -> Result<Option<StoredSource>, StoreError> {
        if let Some(number) = text_number(id) {
            let found = self.store.texts(row.number, number, 1).await?;
            let found = found.into_iter().find(|text| text.number == number && text.entry == id.number);
            return match found {
                Some(text) => self.kept(row, text).await,
                None => Ok(None),
            };
        }
        let entries = self.store.journal(row.number, id.number, 1, PAGE_BYTES).await?;
        let Some(entry) = entries.into_iter().find(|entry| entry.number == id.number) else {
            return Ok(None);
        };
        let text = entry_texts(&entry.entry).into_iter().find(|text| text.part == id.part);
        Ok(text.map(|text| StoredSource {
            origin: text.origin,
            path: text.title.into_owned(),
            at_ms: u64::try_from(entry.at_ms).unwrap_or(0),
            bytes: text.text.as_bytes().into(),
        }))
    }
}

fn announced(id: SourceId, text: StoredSource) -> (TextAnnouncement, Arc<[u8]>) {
    let StoredSource { origin, path, at_ms, bytes } = text;
    (TextAnnouncement { id, origin, path, at_ms, bytes: bytes.len() as u64 }, bytes)
}

impl<'s> StoredSourceCache<'s> {
    pub(super) fn new(sources: &'s JobSources, row: &'s JobRow) -> Self {
        Self { sources, row, read: HashMap::new() }
    }

    /// The source of that id. Ids come from the reader: they lead to sources of this job only.
    pub(super) async fn source(&mut self, id: SourceId) -> Result<Option<&StoredSource>, StoreError> {
        if !self.read.contains_key(&id) {
            let found = self.sources.one(self.row, id).await?;
            self.read.insert(id, found);
        }
        Ok(self.read.get(&id).and_then(Option::as_ref))
    }
}
