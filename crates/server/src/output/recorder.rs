//! Collects output for the store.
//!
//! Bytes come in order from the guest, with offsets, and wait here for a flush. The first half of the cap is kept for ever;
//! behind it the newest half is kept, and whole chunks in between are dropped. A flush cuts at the border of a UTF-8
//! character, so that no event shows half of one.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sandyard_protocol::{ErrorChain, OutputChunk, OutputOffsets, OutputStream};

use super::CHUNK_BYTES;
use crate::blobs::{BlobError, BlobKey, BlobNoun, Blobs, Durability};
use crate::job::JobId;
use crate::job::{Change, ChunkRow, JobRow};
use crate::store::{INLINE_BYTES, Store, StoreError};

/// Chunks of a stream in one commit: a flood of output shares the cost of its syncs.
const FLUSH_CHUNKS: usize = 4;
/// The end of standard error in which the report of a full disk is looked for.
const STDERR_TAIL_BYTES: usize = 4096;

/// Output does not follow the output before it: the guest broke the protocol.
#[derive(Debug, thiserror::Error)]
#[error("output at {found} where {expected} was next")]
pub(crate) struct OutputGap {
    expected: u64,
    found: u64,
}

/// One flush, in order: blobs to write, changes to commit, blobs to remove.
#[derive(Debug)]
pub(crate) struct Flush {
    pub(crate) changes: Vec<Change>,
    /// The output that is committed once the changes are.
    pub(crate) offsets: OutputOffsets,
    blobs: Arc<dyn Blobs>,
    writes: Vec<(BlobKey, Bytes)>,
    dropped: Vec<BlobKey>,
}

impl Flush {
    /// Bytes of output in this flush.
    pub(crate) fn bytes(&self) -> u64 {
        self.changes
            .iter()
            .map(|change| if let Change::Output(chunk) = change { chunk.length } else { 0 })
            .sum()
    }

    /// Stores the large chunks. Comes before the commit, which makes them readable; may be repeated.
    pub(crate) async fn write(&self) -> Result<(), BlobError> {
        if self.writes.is_empty() {
            return Ok(());
        }
        self.blobs.put_all(self.writes.clone(), Durability::Synced).await
    }

    /// Removes dropped chunks. Comes after the commit; a crash in between leaves blobs that no row names.
    pub(crate) async fn clean(self) {
        if self.dropped.is_empty() {
            return;
        }
        if let Err(error) = self.blobs.remove(self.dropped).await {
            tracing::warn!(error = %ErrorChain(&error), "dropped output could not be removed");
        }
    }
}

/// Records the output of one job, from both streams.
#[derive(Debug)]
pub(crate) struct OutputRecorder {
    job: JobId,
    blobs: Arc<dyn Blobs>,
    stdout: StreamRecorder,
    stderr: StreamRecorder,
    stderr_tail: VecDeque<u8>,
}

#[derive(Debug)]
struct StreamRecorder {
    kind: OutputStream,
    pending: BytesMut,
    /// Offset of the first pending byte.
    offset: u64,
    next_chunk: u64,
    cap: u64,
    /// Chunks behind the head that are still kept: number and length.
    tail: VecDeque<(u64, u64)>,
    tail_bytes: u64,
}

impl OutputRecorder {
    /// Continues where the store ends.
    pub(crate) async fn resume(
        row: &JobRow,
        cap: u64,
        store: &dyn Store,
        blobs: Arc<dyn Blobs>,
    ) -> Result<Self, StoreError> {
        let mut stdout = StreamRecorder::new(row, OutputStream::Stdout, cap);
        let mut stderr = StreamRecorder::new(row, OutputStream::Stderr, cap);
        for stream in [&mut stdout, &mut stderr] {
            stream.load_tail(row, store).await?;
        }
        Ok(Self { job: row.id.clone(), blobs, stdout, stderr, stderr_tail: VecDeque::new() })
    }

    /// Takes bytes from the guest; repeated bytes are skipped.
    pub(crate) fn push(&mut self, chunk: OutputChunk) -> Result<(), OutputGap> {
        if chunk.stream == OutputStream::Stderr {
            self.stderr_tail.extend(chunk.bytes.iter());
            let excess = self.stderr_tail.len().saturating_sub(STDERR_TAIL_BYTES);
            self.stderr_tail.drain(..excess);
        }
        let stream = match chunk.stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        stream.push(chunk)
    }

    /// Number of bytes that wait for a flush.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.stdout.pending.len() + self.stderr.pending.len()
    }

    /// True if the job reported a full disk on standard error.
    pub(crate) fn complained_of_full_disk(&self) -> bool {
        let text: Vec<u8> = self.stderr_tail.iter().copied().collect();
        let phrase = b"No space left on device";
        text.windows(phrase.len()).any(|window| window == phrase)
    }

    /// Returns a flush without output.
    pub(crate) fn take_nothing(&self) -> Flush {
        Flush {
            changes: Vec::new(),
            offsets: OutputOffsets { stdout: self.stdout.offset, stderr: self.stderr.offset },
            blobs: Arc::clone(&self.blobs),
            writes: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Takes up to `FLUSH_CHUNKS` chunks of each stream.
    pub(crate) fn take(&mut self, how: Take) -> Flush {
        let mut flush = self.take_nothing();
        for stream in [&mut self.stdout, &mut self.stderr] {
            for _ in 0..FLUSH_CHUNKS {
                let Some((chunk, bytes)) = stream.take(how) else { break };
                if chunk.inline.is_none() {
                    let noun = BlobNoun::Chunk(chunk.stream, chunk.number);
                    flush.writes.push((BlobKey::new(&self.job, noun), bytes));
                }
                let gone = stream.keep(chunk.number, chunk.offset, chunk.length);
                flush.changes.push(Change::Output(chunk));
                if let Some((first, end, bytes)) = gone {
                    let nouns = (first..end).map(|number| BlobNoun::Chunk(stream.kind, number));
                    flush.dropped.extend(nouns.map(|noun| BlobKey::new(&self.job, noun)));
                    flush.changes.push(Change::Dropped { stream: stream.kind, first, end, bytes });
                }
            }
        }
        flush.offsets = OutputOffsets { stdout: self.stdout.offset, stderr: self.stderr.offset };
        flush
    }
}

/// The part of the pending output that a flush takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// Everything up to the last complete UTF-8 character.
    WholeCharacters,
    /// Every byte, also half a character: nothing follows.
    AllOfIt,
}

impl StreamRecorder {
    fn new(row: &JobRow, kind: OutputStream, cap: u64) -> Self {
        let stored = row.stream(kind);
        Self {
            kind,
            pending: BytesMut::new(),
            offset: stored.bytes,
            next_chunk: stored.next_chunk,
            cap,
            tail: VecDeque::new(),
            tail_bytes: 0,
        }
    }

    /// Loads the list of chunks in the tail, after a restart.
    async fn load_tail(&mut self, row: &JobRow, store: &dyn Store) -> Result<(), StoreError> {
        if self.offset <= self.head() {
            return Ok(());
        }
        let head = self.head();
        let mut from = 0;
        loop {
            let chunks = store.chunks(row.number, self.kind, from, 256).await?;
            let Some(last) = chunks.last() else { return Ok(()) };
            from = last.number + 1;
            for chunk in chunks.iter().filter(|chunk| chunk.offset >= head) {
                self.tail.push_back((chunk.number, chunk.length));
                self.tail_bytes += chunk.length;
            }
        }
    }

    fn head(&self) -> u64 {
        self.cap / 2
    }

    fn push(&mut self, chunk: OutputChunk) -> Result<(), OutputGap> {
        let expected = self.offset + self.pending.len() as u64;
        // The guest chose the offset. A gap can't be filled later, so the stream would be wrong for good.
        if chunk.offset > expected {
            return Err(OutputGap { expected, found: chunk.offset });
        }
        // After a resume the guest repeats bytes that were not acknowledged; they are pending or committed already.
        let known = usize::try_from(expected - chunk.offset).unwrap_or(usize::MAX).min(chunk.bytes.len());
        self.pending.extend_from_slice(&chunk.bytes[known..]);
        Ok(())
    }

    fn take(&mut self, how: Take) -> Option<(ChunkRow, Bytes)> {
        let mut length = self.pending.len().min(CHUNK_BYTES);
        if how == Take::WholeCharacters || length < self.pending.len() {
            length -= half_character(&self.pending[..length]);
        }
        if length == 0 {
            return None;
        }
        let bytes = self.pending.split_to(length).freeze();
        let chunk = ChunkRow {
            stream: self.kind,
            number: self.next_chunk,
            offset: self.offset,
            length: length as u64,
            inline: (length <= INLINE_BYTES).then(|| bytes.clone()),
        };
        self.offset += length as u64;
        self.next_chunk += 1;
        Some((chunk, bytes))
    }

    /// Counts a chunk; returns the chunks of the middle to drop: first, end, bytes.
    fn keep(&mut self, number: u64, offset: u64, length: u64) -> Option<(u64, u64, u64)> {
        if offset < self.head() {
            return None;
        }
        self.tail.push_back((number, length));
        self.tail_bytes += length;
        let mut dropped: Option<(u64, u64, u64)> = None;
        // At least one chunk stays: the end of the output is worth more than the exact bound.
        while self.tail_bytes > self.cap - self.head() && self.tail.len() > 1 {
            let Some((number, length)) = self.tail.pop_front() else { break };
            self.tail_bytes -= length;
            let (first, _, bytes) = dropped.unwrap_or((number, number, 0));
            dropped = Some((first, number + 1, bytes + length));
        }
        dropped
    }
}

/// Number of bytes at the end that begin a UTF-8 character whose rest is missing.
fn half_character(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let width = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if width > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
