//! After the end: one plain file for each stream, `logs/stdout.log`, in place of many chunks.
//!
//! The file is what `/logs` gives: head, marker, tail. It is whole before the files of the chunks go, and a reader that does
//! not find a chunk's file looks here, so it may be done at any time, repeatedly, and be interrupted anywhere.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use sandyard_protocol::OutputStream;
use tokio::io::AsyncWriteExt;

use super::reader::{log_stream, marker};
use crate::blobs::Layout;
use crate::disk;
use crate::job::{ChunkRow, JobRow};
use crate::store::Store;

/// Puts both streams of an ended job into one file each.
pub(crate) async fn consolidate(store: &Arc<dyn Store>, layout: &Layout, row: &JobRow) -> io::Result<()> {
    for stream in [OutputStream::Stdout, OutputStream::Stderr] {
        if row.stream(stream).bytes > 0 && !layout.log(&row.id, stream).exists() {
            write_log(store, layout, row, stream).await?;
        }
        let chunks = layout.chunks(&row.id, stream);
        disk::blocking(move || disk::remove_tree(&chunks)).await?;
    }
    Ok(())
}

async fn write_log(
    store: &Arc<dyn Store>,
    layout: &Layout,
    row: &JobRow,
    stream: OutputStream,
) -> io::Result<()> {
    let path = layout.log(&row.id, stream);
    let temporary = path.with_extension("partial");
    let target = temporary.clone();
    let file = disk::blocking(move || {
        target.parent().map_or(Ok(()), disk::make_folder)?;
        disk::new_file(&target)
    })
    .await?;
    let mut file = tokio::fs::File::from_std(file);
    let (_, mut bytes) = log_stream(Arc::clone(store), layout.clone(), row, stream);
    while let Some(part) = bytes.next().await {
        file.write_all(&part?).await?;
    }
    file.flush().await?;
    // Chunks in the store stay there; only those in files are replaced by this file, which then must be on disk.
    if layout.chunks(&row.id, stream).exists() {
        file.sync_all().await?;
    }
    disk::blocking(move || disk::place_durably(&temporary, &path)).await
}

/// The bytes of a chunk from the consolidated file.
pub(super) fn read_from_log(layout: &Layout, row: &JobRow, chunk: &ChunkRow) -> io::Result<Bytes> {
    let counts = row.stream(chunk.stream);
    let behind_the_gap = counts.dropped > 0 && chunk.number >= counts.tail_chunk;
    let place = if behind_the_gap {
        chunk.offset - counts.dropped + marker(counts.dropped).len() as u64
    } else {
        chunk.offset
    };
    let mut bytes = vec![0; usize::try_from(chunk.length).map_err(io::Error::other)?];
    std::fs::File::open(layout.log(&row.id, chunk.stream))?.read_exact_at(&mut bytes, place)?;
    Ok(bytes.into())
}
