//! Output on its way out: tails for the status, text for events, bytes for logs.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use sandyard_protocol::OutputStream;

use super::TAIL_BYTES;
use super::consolidate::read_from_log;
use crate::blobs::Layout;
use crate::disk;
use crate::job::{ChunkRow, JobRow};
use crate::store::{Store, StoreError};

/// Chunks read at once: at most so many MiB in memory for one reader.
const PAGE: usize = 4;

/// The end of a stream as text; bytes that are no UTF-8 are replaced.
pub(crate) async fn tail(
    store: &dyn Store,
    layout: &Layout,
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
        let piece = chunk_bytes(layout, row, chunk).await.unwrap_or_default();
        let skip = usize::try_from(from.saturating_sub(chunk.offset)).unwrap_or(0).min(piece.len());
        bytes.extend_from_slice(&piece[skip..]);
    }
    let start =
        if from > 0 { bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count() } else { 0 };
    Ok(String::from_utf8_lossy(&bytes[start..]).into_owned())
}

/// The text of one chunk; `None` if it was dropped meanwhile.
pub(crate) async fn chunk_text(
    store: &dyn Store,
    layout: &Layout,
    row: &JobRow,
    stream: OutputStream,
    number: u64,
) -> Result<Option<String>, StoreError> {
    let found = store.chunks(row.number, stream, number, 1).await?;
    let Some(chunk) = found.first().filter(|chunk| chunk.number == number) else { return Ok(None) };
    let bytes = chunk_bytes(layout, row, chunk).await.ok();
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

async fn chunk_bytes(layout: &Layout, row: &JobRow, chunk: &ChunkRow) -> io::Result<Bytes> {
    if let Some(bytes) = &chunk.inline {
        return Ok(bytes.clone());
    }
    let (layout, row, chunk) = (layout.clone(), row.clone(), chunk.clone());
    disk::blocking(move || match std::fs::read(layout.chunk(&row.id, chunk.stream, chunk.number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => read_from_log(&layout, &row, &chunk),
        read => read.map(Bytes::from),
    })
    .await
}

/// The line that stands for the dropped middle.
pub(crate) fn marker(bytes: u64) -> String {
    format!("\n[… {bytes} bytes of output were dropped here: the limit of this stream was reached …]\n")
}

/// How long the log of a job is, if it will not change any more.
fn length(row: &JobRow, stream: OutputStream) -> Option<u64> {
    let counts = row.stream(stream);
    let marker = if counts.dropped > 0 { marker(counts.dropped).len() as u64 } else { 0 };
    row.state.is_terminal().then(|| counts.bytes - counts.dropped + marker)
}

/// A log: its length if that is sure, and its bytes.
pub(crate) type Log = (Option<u64>, Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>);

struct Position {
    store: Arc<dyn Store>,
    layout: Layout,
    row: JobRow,
    stream: OutputStream,
    next: u64,
    end: u64,
    offset: u64,
}

/// The log as far as it is committed now: head, marker, tail.
pub(crate) fn log_stream(store: Arc<dyn Store>, layout: Layout, row: &JobRow, kind: OutputStream) -> Log {
    let end = row.stream(kind).next_chunk;
    let start = Position { store, layout, row: row.clone(), stream: kind, next: 0, end, offset: 0 };
    let pages = stream::try_unfold(start, |mut position| async move {
        Ok::<_, io::Error>(position.page().await?.map(|page| (page, position)))
    });
    let bytes = pages.flat_map(|page| match page {
        Ok(parts) => stream::iter(parts.into_iter().map(Ok).collect::<Vec<_>>()),
        Err(error) => stream::iter(vec![Err(error)]),
    });
    (length(row, kind), Box::pin(bytes))
}

impl Position {
    async fn page(&mut self) -> io::Result<Option<Vec<Bytes>>> {
        if self.next >= self.end {
            return Ok(None);
        }
        let found = self
            .store
            .chunks(self.row.number, self.stream, self.next, PAGE)
            .await
            .map_err(io::Error::other)?;
        let mut parts = Vec::new();
        for chunk in found.iter().filter(|chunk| chunk.number < self.end) {
            if chunk.offset > self.offset {
                parts.push(Bytes::from(marker(chunk.offset - self.offset)));
            }
            parts.push(chunk_bytes(&self.layout, &self.row, chunk).await?);
            self.offset = chunk.offset + chunk.length;
            self.next = chunk.number + 1;
        }
        Ok((!parts.is_empty()).then_some(parts))
    }
}
