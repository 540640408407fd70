//! The memory of a task, for its own loop: texts that are kept behind entries, and questions.

use sandyard_memory::{RecallScope, SourceOrigin};
use sandyard_pipe::{Frame, FrameReceiver};
use sandyard_protocol::{
    ErrorChain, JournalEntry, JournalPassage, JournalPassages, JournalQuestion, KeptText, TextOrigin, limits,
};
use tokio::io::AsyncRead;

use super::{ConnectionEnd, JournalService};
use crate::job::JobRow;
use crate::recall::{
    FileVersions, PACKING_PATH, PlainText, RecallQuery, RecalledPassage, TextOwner, TextRoom, origin_word,
};
use crate::store::StoreError;

/// Passages for one question of a loop.
const MAX_PASSAGES: u32 = 40;
/// Versions of a file in one answer: each may be large.
const MAX_VERSIONS: u32 = 4;
/// Longest question.
const MAX_QUESTION_BYTES: usize = 16 * 1024;
/// Bytes of a whole text in an answer: what the loop shows of a result, and the line that is looked at.
const MAX_WHOLE_BYTES: usize = 512 * 1024;
/// Entries read at once in the search for a repeated one.
const PAGE_ENTRIES: usize = 16;
/// Bytes read at once.
const PAGE_BYTES: usize = 1024 * 1024;

/// Texts that arrived with an entry, and the room that they take in memory.
pub(super) struct ReceivedTexts {
    texts: Vec<PlainText>,
    _room: Option<TextRoom>,
}

impl JournalService {
    /// Receives the texts that an append announced.
    pub(super) async fn receive_texts<S: AsyncRead + Unpin>(
        &self,
        receiver: &mut FrameReceiver<S>,
        announced: Vec<KeptText>,
    ) -> Result<ReceivedTexts, ConnectionEnd> {
        let total = announced.iter().fold(0u64, |total, text| total.saturating_add(text.bytes));
        if announced.len() > limits::KEPT_TEXTS || total > limits::KEPT_TEXT_BYTES {
            return Err(ConnectionEnd::Gone);
        }
        let room = match total {
            0 => None,
            total => Some(self.recall.texts().room(total).await),
        };
        let mut texts = Vec::with_capacity(announced.len());
        for KeptText { origin, path, bytes } in announced {
            let bytes = receive(receiver, bytes).await?;
            // The host's own texts have absolute paths, which no loop may use.
            let path = path.trim_start_matches('/').replace('\0', "");
            texts.push(PlainText { origin: origin_of(origin), path, bytes: bytes.into() });
        }
        Ok(ReceivedTexts { texts, _room: room })
    }

    /// Keeps the texts of an entry that is appended next. Those of an entry that the journal has already were kept with it.
    pub(super) async fn keep_texts(&self, number: u64, received: ReceivedTexts) -> Result<(), StoreError> {
        if received.texts.is_empty() || self.is_appended(number).await? {
            return Ok(());
        }
        let fence = &self.parts.fence;
        let owner = TextOwner { id: fence.job.clone(), number: self.parts.job, epoch: Some(fence.epoch) };
        match self.recall.texts().keep(&owner, received.texts).await {
            Ok(()) => Ok(()),
            Err(crate::recall::KeepTextError::Store(error)) => Err(error),
            Err(error) => {
                // A step must not fail because its memory could not be kept; the entry itself says what the model read.
                tracing::warn!(job = %self.id(), error = %ErrorChain(&error), "texts are missing in the memory");
                Ok(())
            }
        }
    }

    /// True if the loop itself has written an entry at or behind that number.
    async fn is_appended(&self, number: u64) -> Result<bool, StoreError> {
        let mut next = number;
        loop {
            let page = self.store.journal(self.parts.job, next, PAGE_ENTRIES, PAGE_BYTES).await?;
            let Some(last) = page.last().map(|row| row.number) else { return Ok(false) };
            if page.iter().any(|row| !matches!(row.entry, JournalEntry::Said { .. })) {
                return Ok(true);
            }
            next = last + 1;
        }
    }

    /// Answers a question of the loop.
    pub(super) async fn answer(&self, question: JournalQuestion) -> Result<JournalPassages, StoreError> {
        let row = self.row().await?;
        if let Some(entry) = question.entry {
            return self.whole(&row, entry).await;
        }
        if let (true, Some(path)) = (question.text.is_empty(), &question.path) {
            let before = question.before.unwrap_or(u64::MAX);
            let count = question.count.clamp(1, MAX_VERSIONS) as usize;
            let versions = FileVersions { path: path.clone(), before, count };
            let found = self.recall.versions(&row, &versions).await?;
            let passages = found.passages.into_iter().map(passage).collect();
            return Ok(JournalPassages { passages, failed: false });
        }
        let Some(query) = query(question) else { return Ok(failed()) };
        match self.recall.recall(&row, &query).await {
            Ok(Some(found)) => {
                let passages = found.passages.into_iter().map(passage).collect();
                Ok(JournalPassages { passages, failed: false })
            }
            Ok(None) => Ok(failed()),
            Err(crate::recall::RecallError::Store(error)) => Err(error),
            Err(error) => {
                tracing::warn!(job = %row.id, error = %ErrorChain(&error), "a loop's question was not answered");
                Ok(failed())
            }
        }
    }

    /// The texts that are kept behind an entry.
    async fn whole(&self, row: &JobRow, entry: u64) -> Result<JournalPassages, StoreError> {
        let mut passages = Vec::new();
        let texts = self.store.texts_at(row.number, entry, limits::KEPT_TEXTS).await?;
        for text in texts.into_iter().filter(|text| text.path != PACKING_PATH) {
            let Some(mut bytes) =
                self.recall.texts().read(&row.id, row.number, text.digest, text.bytes).await?
            else {
                continue;
            };
            bytes.truncate(MAX_WHOLE_BYTES);
            let words = String::from_utf8_lossy(&bytes).into_owned();
            let last_line = words.lines().count() as u32;
            passages.push(JournalPassage {
                entry,
                origin: origin_word(text.origin).to_owned(),
                path: text.path,
                first_line: 1,
                last_line,
                seen: 1,
                first_seen: entry,
                text: words,
            });
        }
        Ok(JournalPassages { passages, failed: false })
    }
}

fn failed() -> JournalPassages {
    JournalPassages { passages: Vec::new(), failed: true }
}

fn query(question: JournalQuestion) -> Option<RecallQuery> {
    let JournalQuestion { mut text, count, origins, path, before, after, .. } = question;
    text.truncate(text.floor_char_boundary(MAX_QUESTION_BYTES));
    let known = |word: &String| SourceOrigin::ALL.into_iter().find(|origin| origin_word(*origin) == word);
    let origins = origins.iter().map(known).collect::<Option<Vec<_>>>()?;
    let first = after.map_or(0, |after| after.saturating_add(1));
    let last = before.map_or(u64::MAX, |before| before.saturating_sub(1));
    let scope = RecallScope { origins, path_prefix: path, numbers: Some(first..=last) };
    Some(RecallQuery { text, count: count.clamp(1, MAX_PASSAGES) as usize, scope })
}

fn passage(found: RecalledPassage) -> JournalPassage {
    let first_seen = found.first.as_ref().map_or(found.place.entry, |first| first.entry);
    let (first_line, last_line) = found.place.lines;
    JournalPassage {
        entry: found.place.entry,
        origin: origin_word(found.place.origin).to_owned(),
        path: found.place.path,
        first_line,
        last_line,
        seen: found.seen as u64,
        first_seen,
        text: String::from_utf8_lossy(&found.bytes).into_owned(),
    }
}

fn origin_of(origin: TextOrigin) -> SourceOrigin {
    match origin {
        TextOrigin::File => SourceOrigin::File,
        TextOrigin::Result => SourceOrigin::Result,
        TextOrigin::Cell => SourceOrigin::Cell,
    }
}

async fn receive<S: AsyncRead + Unpin>(
    receiver: &mut FrameReceiver<S>,
    length: u64,
) -> Result<Vec<u8>, ConnectionEnd> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        match receiver.receive().await {
            // An empty part would keep this side busy for nothing.
            Ok(Some(Frame::Data(data)))
                if !data.is_empty() && bytes.len() as u64 + data.len() as u64 <= length =>
            {
                bytes.extend_from_slice(&data);
            }
            _ => return Err(ConnectionEnd::Gone),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
