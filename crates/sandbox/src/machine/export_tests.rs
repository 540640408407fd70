//! Entries from a guest in wrong hands.

use std::path::Path;

use tokio::io::{AsyncWriteExt as _, duplex};
use tokio::runtime::Runtime;

use super::*;
use crate::machine::calls::FRAME_LIMITS;

/// Room of a stream in memory: the longest input of a search, and the seeds.
const STREAM_BYTES: usize = 256 * 1024;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// A stream on which these bytes come, and then the end.
async fn coming(bytes: &[u8]) -> EntryStream<tokio::io::DuplexStream> {
    let (ours, mut theirs) = duplex(STREAM_BYTES);
    theirs.write_all(bytes).await.unwrap();
    EntryStream::new(Framed::new(ours, FRAME_LIMITS))
}

/// Reads as the packing of a result does: every entry, and all bytes of every file. Returns the number of entries.
async fn read_all(entries: &mut EntryStream<tokio::io::DuplexStream>) -> Result<usize, MachineError> {
    let mut count = 0;
    while let Some(entry) = entries.next_entry().await? {
        count += 1;
        assert!(!entry.path.is_empty() && entry.path.len() <= 3 * limits::PATH_BYTES);
        assert!(entry.mode <= 0o7777 && entry.kind != EntryKind::Other);
        assert!(entry.size == 0 || entry.kind == EntryKind::File, "only a file has bytes");
        assert_eq!(entry.target.is_some(), entry.kind == EntryKind::Symlink);
        let mut length = 0;
        while let Some(bytes) = entries.next_bytes().await? {
            assert!(!bytes.is_empty(), "an empty part would keep the host busy for nothing");
            length += bytes.len() as u64;
        }
        assert_eq!(length, entry.size, "a file has as many bytes as its header says");
    }
    assert!(entries.skipped.len() <= MAX_SKIPPED);
    Ok(count)
}

/// Whatever comes ends in sound entries or in an error.
#[test]
fn fuzz_export() {
    let runtime = runtime();
    sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "export").run(|bytes| {
        let _ = runtime.block_on(async { read_all(&mut coming(bytes).await).await });
    });
}

/// Seeds that are all refused would test the first check and nothing behind it.
#[test]
fn the_sound_seeds_are_read_to_their_end() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/export");
    for (seed, entries) in [("tree", 4), ("holes", 2), ("skipped", 0), ("parts", 1)] {
        let bytes = std::fs::read(folder.join(seed)).unwrap();
        let read = runtime().block_on(async { read_all(&mut coming(&bytes).await).await });
        assert_eq!(read.unwrap(), entries, "{seed}");
    }
    for seed in ["too_much", "directory_with_bytes", "cut_off"] {
        let bytes = std::fs::read(folder.join(seed)).unwrap();
        let read = runtime().block_on(async { read_all(&mut coming(&bytes).await).await });
        assert!(read.is_err(), "{seed}: {read:?}");
    }
}
