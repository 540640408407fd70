//! Keeps and reads the texts behind a journal: packed, named by their content, each stored once.

use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use sandyard_memory::{ContentDigest, SourceOrigin};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::blobs::{BlobError, BlobKey, BlobNoun, BlobRange, Blobs, Durability};
use crate::disk;
use crate::job::{JobId, NewText, NewTextBody, StoredText};
use crate::store::{INLINE_BYTES, Store, StoreError};

/// Texts up to this size are packed on the thread that keeps them: it takes a tenth of a millisecond.
const QUICK_BYTES: usize = 16 * 1024;
/// Room for texts of all jobs that are being received: eight of the largest, which wait for each other beyond that.
const ROOM_KIB: usize = 64 * 1024;
/// Longest path of a text; longer ones are cut. The kernel's PATH_MAX.
const MAX_PATH_BYTES: usize = 4096;

/// A text as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlainText {
    pub(crate) origin: SourceOrigin,
    /// Path of a file, or the name of a tool or language.
    pub(crate) path: String,
    pub(crate) bytes: Bytes,
}

/// A text could not be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepTextError {
    #[error("pack a text")]
    Pack(#[source] std::io::Error),
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The texts of all jobs.
#[derive(Clone)]
pub(crate) struct KeptTexts {
    store: Arc<dyn Store>,
    blobs: Arc<dyn Blobs>,
    /// Room for texts that are being received, in KiB.
    room: Arc<Semaphore>,
}

/// Room in memory for texts. It is free again when this is dropped.
pub(crate) struct TextRoom {
    _permit: Option<OwnedSemaphorePermit>,
}

/// A job in the store.
#[derive(Debug, Clone)]
pub(crate) struct TextOwner {
    pub(crate) id: JobId,
    /// The job's number in the store.
    pub(crate) number: i64,
    /// Its present epoch, for its owner; the texts then belong to the next entry of its journal.
    pub(crate) epoch: Option<u64>,
}

impl KeptTexts {
    pub(crate) fn new(store: Arc<dyn Store>, blobs: Arc<dyn Blobs>) -> Self {
        Self { store, blobs, room: Arc::new(Semaphore::new(ROOM_KIB)) }
    }

    /// Waits for room for texts of that size: sandboxes together can't fill the server's memory.
    pub(crate) async fn room(&self, bytes: u64) -> TextRoom {
        let wanted = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(ROOM_KIB as u32);
        // The semaphore is never closed.
        TextRoom { _permit: Arc::clone(&self.room).acquire_many_owned(wanted).await.ok() }
    }

    /// Keeps texts. They outlive this process when it returns; the disk has them with the next commit.
    pub(crate) async fn keep(&self, owner: &TextOwner, texts: Vec<PlainText>) -> Result<(), KeepTextError> {
        if texts.is_empty() {
            return Ok(());
        }
        let (mut rows, mut blobs) = (Vec::with_capacity(texts.len()), Vec::new());
        for PlainText { origin, mut path, bytes } in texts {
            path.truncate(path.floor_char_boundary(MAX_PATH_BYTES));
            let digest = ContentDigest::of(&bytes);
            let length = bytes.len() as u64;
            let body = match self.store.text(owner.number, digest).await? {
                Some(_) => NewTextBody::Known,
                None => {
                    let packed = packed(bytes).await.map_err(KeepTextError::Pack)?;
                    if packed.len() <= INLINE_BYTES {
                        NewTextBody::Inline(packed)
                    } else {
                        let bytes = packed.len() as u64;
                        blobs.push((BlobKey::new(&owner.id, BlobNoun::Text(digest)), packed));
                        NewTextBody::Blob(bytes)
                    }
                }
            };
            rows.push(NewText { origin, path, digest, bytes: length, body });
        }
        // Before the rows that name them: a crash in between leaves blobs that go with the job, never a row without its text.
        self.blobs.put_all(blobs, Durability::Synced).await?;
        self.store.keep_texts(&owner.id, owner.epoch, rows).await?;
        Ok(())
    }

    /// Reads a text again. `None` if it is gone, or is not what its digest says.
    pub(crate) async fn read(
        &self,
        job: &JobId,
        number: i64,
        digest: ContentDigest,
        bytes: u64,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let packed = match self.store.text(number, digest).await? {
            None => return Ok(None),
            Some(StoredText::Inline(packed)) => packed,
            Some(StoredText::Blob) => {
                let key = BlobKey::new(job, BlobNoun::Text(digest));
                match self.blobs.read(&key, BlobRange::Whole).await {
                    Ok(packed) => packed,
                    // A lost text is one that can't be cited; the others still can.
                    Err(_) => return Ok(None),
                }
            }
        };
        let unpacked = disk::blocking(move || unpacked(&packed, bytes)).await;
        Ok(unpacked.ok().filter(|text| ContentDigest::of(text) == digest))
    }
}

async fn packed(bytes: Bytes) -> std::io::Result<Bytes> {
    let length = bytes.len();
    let pack = move || {
        let mut encoder = ZlibEncoder::new(Vec::with_capacity(bytes.len() / 3 + 64), Compression::fast());
        encoder.write_all(&bytes)?;
        Ok(Bytes::from(encoder.finish()?))
    };
    if length <= QUICK_BYTES { pack() } else { disk::blocking(pack).await }
}

/// Unpacks a text of a known length: a damaged one never takes more memory.
fn unpacked(packed: &[u8], bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    ZlibDecoder::new(packed).take(bytes + 1).read_to_end(&mut text)?;
    if text.len() as u64 == bytes { Ok(text) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_packed_is_unpacked_and_nothing_else() {
        let text = Bytes::from("line of a log\n".repeat(10_000));
        let packed = packed(text.clone()).await.unwrap();
        assert!(packed.len() < text.len() / 20);
        assert_eq!(unpacked(&packed, text.len() as u64).unwrap(), text);
        assert!(unpacked(&packed, text.len() as u64 - 1).is_err(), "longer than announced");
        assert!(unpacked(&packed[..packed.len() / 2], text.len() as u64).is_err());
        assert!(unpacked(b"no stream", 9).is_err());
    }
}
