//! After the end of a job: one blob for each stream, the log, in place of many chunks.
//!
//! The log is what `GET /logs` returns: head, marker, tail. It is stored before the blobs of the chunks are removed, and a
//! reader that misses the blob of a chunk looks into the log. So consolidation may happen at any time, be repeated, and be
//! interrupted anywhere.

use std::sync::Arc;

use sandyard_protocol::OutputStream;

use super::log_place::log_key;
use super::reader::log_stream;
use crate::blobs::{BlobError, BlobKey, BlobScope, Blobs, Durability};
use crate::job::JobRow;
use crate::store::Store;

/// Stores both logs of an ended job and removes its chunks.
pub(crate) async fn consolidate(
    store: &Arc<dyn Store>,
    blobs: &Arc<dyn Blobs>,
    row: &JobRow,
) -> Result<(), BlobError> {
    for stream in [OutputStream::Stdout, OutputStream::Stderr] {
        let log = log_key(row, stream);
        if row.stream(stream).bytes > 0 && blobs.length(&log).await?.is_none() {
            write_log(store, blobs, row, &log, stream).await?;
        }
        // Only after the log is stored: until then the chunks are the only copy of the output.
        blobs.remove_all(&BlobScope::Chunks(row.id.clone(), stream)).await?;
    }
    Ok(())
}

async fn write_log(
    store: &Arc<dyn Store>,
    blobs: &Arc<dyn Blobs>,
    row: &JobRow,
    log: &BlobKey,
    stream: OutputStream,
) -> Result<(), BlobError> {
    let chunks = BlobScope::Chunks(row.id.clone(), stream);
    // Small chunks stay in the store, so a log of these alone is a copy. A log that takes the place of large ones is not.
    let durability =
        if blobs.list(&chunks, None).await?.is_empty() { Durability::Copy } else { Durability::Synced };
    let bytes = log_stream(Arc::clone(store), Arc::clone(blobs), row, stream).bytes;
    blobs.put(log, bytes, durability).await
}
