//! Reads output: tails for the status, text for events, bytes for logs.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use sandyard_protocol::OutputStream;

use super::TAIL_BYTES;
use super::log_place::{marker, place_in_log};
use crate::blobs::{
    BlobContent, BlobError, BlobErrorKind, BlobKey, BlobNoun, BlobRange, BlobStream, Blobs, collect,
};
use crate::job::{ChunkRow, JobRow};
use crate::store::{Store, StoreError};

/// Rows of chunks read at once. A row has at most 16 KiB of output itself; larger chunks are read in pieces.
const PAGE_CHUNKS: usize = 4;

/// The end of a stream as text; bytes that are not UTF-8 are replaced.
pub(crate) async fn tail(
    store: &dyn Store,
    blobs: &dyn Blobs,
    row: &JobRow,
    stream: OutputStream,
) -> Result<String, StoreError> {
    let total = row.stream(stream).bytes;
    if total == 0 {
        return Ok(String::new());
    }
    let from = total.saturating_sub(TAIL_BYTES);
    let chunks = store.chunks_after(row.number, stream, from).await?;
    let mut bytes = Vec::new();
    for chunk in &chunks {
        // A status without some output is better than no status.
        let piece = chunk_bytes(blobs, row, chunk).await.unwrap_or_default();
        let skip = usize::try_from(from.saturating_sub(chunk.offset)).unwrap_or(0).min(piece.len());
        bytes.extend_from_slice(&piece[skip..]);
    }
    // The tail may begin inside a character: its continuation bytes are left out.
    let start =
        if from > 0 { bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count() } else { 0 };
    Ok(String::from_utf8_lossy(&bytes[start..]).into_owned())
}

/// The text of one chunk; `None` if it has been dropped.
pub(crate) async fn chunk_text(
    store: &dyn Store,
    blobs: &dyn Blobs,
    row: &JobRow,
    stream: OutputStream,
    number: u64,
) -> Result<Option<String>, StoreError> {
    let found = store.chunks(row.number, stream, number, 1).await?;
    let Some(chunk) = found.first().filter(|chunk| chunk.number == number) else { return Ok(None) };
    let bytes = chunk_bytes(blobs, row, chunk).await.ok();
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

async fn chunk_bytes(blobs: &dyn Blobs, row: &JobRow, chunk: &ChunkRow) -> io::Result<Bytes> {
    if let Some(bytes) = &chunk.inline {
        return Ok(bytes.clone());
    }
    collect(chunk_content(blobs, row, chunk).await.map_err(io::Error::other)?).await
}

/// Opens a chunk that is not in its row.
async fn chunk_content(blobs: &dyn Blobs, row: &JobRow, chunk: &ChunkRow) -> Result<BlobContent, BlobError> {
    let key = BlobKey::new(&row.id, BlobNoun::Chunk(chunk.stream, chunk.number));
    match blobs.get(&key, BlobRange::Bytes { start: 0, length: chunk.length }).await {
        // Consolidation stores the log before it removes the chunk, so one of the two is always there.
        Err(error) if error.kind == BlobErrorKind::NotFound => {
            let (log, range) = place_in_log(row, chunk);
            blobs.get(&log, range).await
        }
        opened => opened,
    }
}

/// The length of a job's log, if it will not change any more.
fn length(row: &JobRow, stream: OutputStream) -> Option<u64> {
    let counts = row.stream(stream);
    let marker = if counts.dropped > 0 { marker(counts.dropped).len() as u64 } else { 0 };
    row.state.is_terminal().then(|| counts.bytes - counts.dropped + marker)
}

/// The output of one stream: head, marker, tail.
pub(crate) struct OutputLog {
    /// The number of bytes, once the job has ended.
    pub(crate) length: Option<u64>,
    pub(crate) bytes: BlobStream,
}

/// Where a reader of a log is.
struct LogCursor {
    store: Arc<dyn Store>,
    blobs: Arc<dyn Blobs>,
    row: JobRow,
    stream: OutputStream,
    next: u64,
    end: u64,
    offset: u64,
    /// Rows that were read and whose bytes were not.
    page: VecDeque<ChunkRow>,
}

/// The log as far as it is committed now.
pub(crate) fn log_stream(
    store: Arc<dyn Store>,
    blobs: Arc<dyn Blobs>,
    row: &JobRow,
    kind: OutputStream,
) -> OutputLog {
    let end = row.stream(kind).next_chunk;
    let start = LogCursor {
        store,
        blobs,
        row: row.clone(),
        stream: kind,
        next: 0,
        end,
        offset: 0,
        page: VecDeque::new(),
    };
    let chunks = stream::try_unfold(start, |mut cursor| async move {
        Ok::<_, io::Error>(cursor.next_chunk().await?.map(|bytes| (bytes, cursor)))
    });
    OutputLog { length: length(row, kind), bytes: Box::pin(chunks.try_flatten()) }
}

impl LogCursor {
    /// The bytes of the next chunk, in pieces: a client that stops reading must not hold more than one. A marker comes first
    /// where something was dropped.
    async fn next_chunk(&mut self) -> io::Result<Option<BlobStream>> {
        let Some(chunk) = self.next_row().await? else { return Ok(None) };
        let dropped = chunk.offset - self.offset.min(chunk.offset);
        let marker = (dropped > 0).then(|| Ok(Bytes::from(marker(dropped))));
        self.offset = chunk.offset + chunk.length;
        let bytes = match &chunk.inline {
            Some(bytes) => stream::iter([Ok(bytes.clone())]).boxed(),
            None => {
                let content = chunk_content(self.blobs.as_ref(), &self.row, &chunk).await;
                content.map_err(io::Error::other)?.bytes
            }
        };
        Ok(Some(stream::iter(marker).chain(bytes).boxed()))
    }

    async fn next_row(&mut self) -> io::Result<Option<ChunkRow>> {
        if self.page.is_empty() && self.next < self.end {
            let (number, from) = (self.row.number, self.next);
            let found = self.store.chunks(number, self.stream, from, PAGE_CHUNKS).await;
            self.page = found.map_err(io::Error::other)?.into();
        }
        let row = self.page.pop_front().filter(|chunk| chunk.number < self.end);
        self.next = row.as_ref().map_or(self.end, |chunk| chunk.number + 1);
        Ok(row)
    }
}
