//! Output on its way into the store.
//!
//! Bytes come in order from the guest, with offsets, and pile up here until a flush takes them. The first half
//! of the cap stays for ever; after it the newest half stays, and whole chunks between are dropped. A flush cuts at the
//! border of a UTF-8 character, so that no event shows half of one.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use sandyard_protocol::{OutputChunk, OutputOffsets, OutputStream};

use super::CHUNK_BYTES;
use crate::blobs::Layout;
use crate::disk;
use crate::job::JobId;
use crate::job::{Change, ChunkRow, JobRow};
use crate::store::{INLINE_BYTES, Store, StoreError};

/// Chunks of a stream in one commit: a flood of output shares its syncs.
const CHUNKS_AT_ONCE: usize = 4;
/// Enough of the last error output to see a full disk in it.
const LAST_WORDS_BYTES: usize = 4096;

/// Output that does not follow what came before: the guest broke the protocol.
#[derive(Debug, thiserror::Error)]
#[error("output at {found} where {expected} was next")]
pub(crate) struct OutOfPlace {
    expected: u64,
    found: u64,
}

/// Everything of one flush: files to write first, changes to commit, files to remove after.
#[derive(Debug)]
pub(crate) struct Flush {
    pub(crate) changes: Vec<Change>,
    /// What is committed once the changes are.
    pub(crate) offsets: OutputOffsets,
    writes: Vec<(PathBuf, Bytes)>,
    dropped: Vec<PathBuf>,
}

impl Flush {
    /// Bytes of output in it.
    pub(crate) fn bytes(&self) -> u64 {
        self.changes
            .iter()
            .map(|change| if let Change::Output(chunk) = change { chunk.length } else { 0 })
            .sum()
    }

    /// Writes the large chunks to their files. May be repeated: nobody reads a file before its row is committed.
    pub(crate) async fn write(&self) -> io::Result<()> {
        if self.writes.is_empty() {
            return Ok(());
        }
        let writes = self.writes.clone();
        disk::blocking(move || disk::write_all_durably(&writes)).await
    }

    /// Removes the files of chunks that were dropped, once that is committed. A crash before leaves files nobody reads.
    pub(crate) async fn clean(self) {
        if self.dropped.is_empty() {
            return;
        }
        let removal = disk::blocking(move || {
            for path in self.dropped {
                let _ = std::fs::remove_file(path);
            }
            Ok(())
        });
        if let Err(error) = removal.await {
            tracing::warn!(%error, "dropped output could not be removed");
        }
    }
}

/// The output of one job, from both streams.
#[derive(Debug)]
pub(crate) struct Recorder {
    job: JobId,
    layout: Layout,
    stdout: Stream,
    stderr: Stream,
    last_words: VecDeque<u8>,
}

#[derive(Debug)]
struct Stream {
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

impl Recorder {
    /// Goes on where the store ends.
    pub(crate) async fn resume(
        row: &JobRow,
        cap: u64,
        store: &dyn Store,
        layout: Layout,
    ) -> Result<Self, StoreError> {
        let mut stdout = Stream::new(row, OutputStream::Stdout, cap);
        let mut stderr = Stream::new(row, OutputStream::Stderr, cap);
        for stream in [&mut stdout, &mut stderr] {
            stream.load_tail(row, store).await?;
        }
        Ok(Self { job: row.id.clone(), layout, stdout, stderr, last_words: VecDeque::new() })
    }

    /// Takes bytes from the guest; what is known already is skipped.
    pub(crate) fn push(&mut self, chunk: OutputChunk) -> Result<(), OutOfPlace> {
        if chunk.stream == OutputStream::Stderr {
            self.last_words.extend(chunk.bytes.iter());
            let excess = self.last_words.len().saturating_sub(LAST_WORDS_BYTES);
            self.last_words.drain(..excess);
        }
        let stream = match chunk.stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        stream.push(chunk)
    }

    /// Bytes that wait for a flush.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.stdout.pending.len() + self.stderr.pending.len()
    }

    /// Whether the job said that its disk was full.
    pub(crate) fn complained_of_full_disk(&self) -> bool {
        let text: Vec<u8> = self.last_words.iter().copied().collect();
        let phrase = b"No space left on device";
        text.windows(phrase.len()).any(|window| window == phrase)
    }

    /// Takes up to `CHUNKS_AT_ONCE` of each stream; `AllOfIt` takes half characters too.
    pub(crate) fn take(&mut self, how: Take) -> Flush {
        let mut flush = Flush {
            changes: Vec::new(),
            offsets: OutputOffsets::default(),
            writes: Vec::new(),
            dropped: Vec::new(),
        };
        for stream in [&mut self.stdout, &mut self.stderr] {
            for _ in 0..CHUNKS_AT_ONCE {
                let Some((chunk, bytes)) = stream.take(how) else { break };
                if chunk.inline.is_none() {
                    flush.writes.push((self.layout.chunk(&self.job, chunk.stream, chunk.number), bytes));
                }
                let gone = stream.keep(chunk.number, chunk.offset, chunk.length);
                flush.changes.push(Change::Output(chunk));
                if let Some((first, end, bytes)) = gone {
                    let paths = (first..end).map(|number| self.layout.chunk(&self.job, stream.kind, number));
                    flush.dropped.extend(paths);
                    flush.changes.push(Change::Dropped { stream: stream.kind, first, end, bytes });
                }
            }
        }
        flush.offsets = OutputOffsets { stdout: self.stdout.offset, stderr: self.stderr.offset };
        flush
    }
}

/// How much a flush takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// Whole characters.
    WholeCharacters,
    /// Every byte: nothing follows.
    AllOfIt,
}

impl Stream {
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

    /// Finds the chunks of the tail again, after a restart.
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

    fn push(&mut self, chunk: OutputChunk) -> Result<(), OutOfPlace> {
        let expected = self.offset + self.pending.len() as u64;
        if chunk.offset > expected {
            return Err(OutOfPlace { expected, found: chunk.offset });
        }
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

    /// Counts a chunk; returns which chunks of the middle must go: first, end, bytes.
    fn keep(&mut self, number: u64, offset: u64, length: u64) -> Option<(u64, u64, u64)> {
        if offset < self.head() {
            return None;
        }
        self.tail.push_back((number, length));
        self.tail_bytes += length;
        let mut dropped: Option<(u64, u64, u64)> = None;
        while self.tail_bytes > self.cap - self.head() && self.tail.len() > 1 {
            let Some((number, length)) = self.tail.pop_front() else { break };
            self.tail_bytes -= length;
            let (first, _, bytes) = dropped.unwrap_or((number, number, 0));
            dropped = Some((first, number + 1, bytes + length));
        }
        dropped
    }
}

/// How many bytes at the end are the beginning of a UTF-8 character whose rest is missing.
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
