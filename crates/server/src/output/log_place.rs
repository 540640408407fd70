//! Where the log of an ended job has what its chunks had.

use sandyard_protocol::OutputStream;

use crate::blobs::{BlobKey, BlobNoun, BlobRange};
use crate::job::{ChunkRow, JobRow};

/// The line in place of the dropped middle.
pub(super) fn marker(bytes: u64) -> String {
    format!("\n[… {bytes} bytes of output were dropped here: the limit of this stream was reached …]\n")
}

/// Where the consolidated log has the bytes of a chunk.
pub(super) fn place_in_log(row: &JobRow, chunk: &ChunkRow) -> (BlobKey, BlobRange) {
    let counts = row.stream(chunk.stream);
    let is_behind_gap = counts.dropped > 0 && chunk.number >= counts.tail_chunk;
    let start = if is_behind_gap {
        chunk.offset - counts.dropped + marker(counts.dropped).len() as u64
    } else {
        chunk.offset
    };
    (log_key(row, chunk.stream), BlobRange::Bytes { start, length: chunk.length })
}

pub(super) fn log_key(row: &JobRow, stream: OutputStream) -> BlobKey {
    BlobKey::new(&row.id, BlobNoun::Log(stream))
}
