//! The bytes of jobs: results, output, start trees, screenshots and request texts.
//!
//! Callers name a blob by a typed [`BlobKey`] and never see where it lies. `folder` keeps blobs below the data directory or in another
//! folder, `objects` in a bucket of an object store. `scratch` holds files that are still being written, always on this host.
//! `workspaces` is about something else: the folders in which local drivers keep the disks of sandboxes.

#[cfg(test)]
mod conformance;
mod error;
mod folder;
mod key;
#[cfg(test)]
mod memory;
mod objects;
mod scratch;
mod workspaces;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

pub(crate) use error::{BlobError, BlobErrorKind};
pub(crate) use folder::FolderBlobs;
pub(crate) use key::{BlobKey, BlobNoun, BlobScope};
#[cfg(test)]
pub(crate) use memory::MemoryBlobs;
pub use objects::{BadBlobsUrl, BlobsLocation, CredentialVariables};
pub(crate) use scratch::{Scratch, ScratchFile, read_file};
pub(crate) use workspaces::WorkspaceFolders;
pub use workspaces::WorkspaceOwner;

use crate::job::JobId;

/// The place of a yard's blobs, and what is needed to get there.
#[derive(Debug, Clone, Default)]
pub struct BlobsConfig {
    /// The place.
    pub location: BlobsLocation,
    /// Where the credentials of a bucket are.
    pub variables: CredentialVariables,
}

/// Opens the blobs of a yard. Nothing is asked of an object store yet.
pub(crate) fn open(
    config: &BlobsConfig,
    data: &Path,
    scratch: Scratch,
) -> Result<Arc<dyn Blobs>, OpenBlobsError> {
    if let Some(objects) = config.location.open(&config.variables)? {
        return Ok(Arc::new(objects));
    }
    let folder = match &config.location {
        BlobsLocation::Folder(folder) => folder.as_path(),
        _ => data,
    };
    let opened = FolderBlobs::open(folder, scratch);
    let blobs = opened.map_err(|source| OpenBlobsError::Folder { path: folder.to_owned(), source })?;
    Ok(Arc::new(blobs))
}

/// The place of the blobs can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenBlobsError {
    /// The folder can't be made.
    #[error("prepare {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The variables of the environment are incomplete or wrong.
    #[error("prepare the bucket")]
    Bucket(#[from] object_store::Error),
}

/// Bytes of a blob, in order.
pub(crate) type BlobStream = BoxStream<'static, std::io::Result<Bytes>>;

/// A part of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlobRange {
    Whole,
    Bytes { start: u64, length: u64 },
}

/// The effect of a power failure on a blob that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// None: the blob is on stable storage before `put` returns.
    Synced,
    /// The blob may be lost or damaged. Only for copies of data in the store: it saves a sync for each job.
    Copy,
}

/// An open blob. It stays readable to its end, even if it is replaced or removed.
pub(crate) struct BlobContent {
    /// Number of bytes that `bytes` yields, unless it fails.
    pub(crate) length: u64,
    pub(crate) bytes: BlobStream,
}

/// The blobs of one yard.
///
/// A blob is whole or absent: no reader ever sees part of one, whatever is interrupted, cancelled or killed. A put replaces
/// the blob of that key atomically; of several puts of one key at the same time, one wins. A reader that has opened a blob
/// reads it to its end even if it is replaced or removed meanwhile. Removal is idempotent. Every call may be repeated after
/// a failure; a call that failed or was cancelled may have happened.
///
/// The contract fits object stores: nothing is renamed from key to key, nothing is changed in place, a put knows no length
/// in advance (a multipart upload with a checksum), and listings come in pages ordered by the bytes of [`BlobKey::name`].
#[async_trait]
pub(crate) trait Blobs: Debug + Send + Sync + 'static {
    /// Stores the bytes of a stream. If the stream fails, the put fails and the blob stays as it was.
    async fn put(&self, key: &BlobKey, bytes: BlobStream, durability: Durability) -> Result<(), BlobError>;

    /// Stores a file that was written in the scratch folder, durably, and takes it away from there.
    async fn put_file(&self, key: &BlobKey, file: ScratchFile) -> Result<(), BlobError>;

    /// Stores several blobs and shares the cost of a sync between them. After a failure some of them may be stored.
    async fn put_all(&self, blobs: Vec<(BlobKey, Bytes)>, durability: Durability) -> Result<(), BlobError>;

    /// Opens a blob. A range that reaches beyond its end is an error of kind `Damaged`: callers know lengths from the store.
    async fn get(&self, key: &BlobKey, range: BlobRange) -> Result<BlobContent, BlobError>;

    /// Reads a small blob or a small part of one into memory.
    async fn read(&self, key: &BlobKey, range: BlobRange) -> Result<Bytes, BlobError> {
        let content = self.get(key, range).await?;
        collect(content).await.map_err(|source| BlobError::new(key.name(), source))
    }

    /// The length of a blob, or `None` if there is none.
    async fn length(&self, key: &BlobKey) -> Result<Option<u64>, BlobError>;

    /// The first blobs of a scope behind `after`, in order; an empty page is the end.
    async fn list(&self, scope: &BlobScope, after: Option<&BlobKey>) -> Result<Vec<BlobKey>, BlobError>;

    /// The first jobs behind `after` that may have blobs, in order; an empty page is the end.
    async fn jobs(&self, after: Option<&JobId>) -> Result<Vec<JobId>, BlobError>;

    /// Removes blobs. Blobs that are missing count as removed; after a failure the others may be gone.
    async fn remove(&self, keys: Vec<BlobKey>) -> Result<(), BlobError>;

    /// Removes every blob of a scope.
    async fn remove_all(&self, scope: &BlobScope) -> Result<(), BlobError>;
}

/// Largest number of keys or jobs in one page of a listing, as in common object stores.
const PAGE_KEYS: usize = 1000;

/// The bytes of a small blob in memory.
pub(crate) async fn collect(mut content: BlobContent) -> std::io::Result<Bytes> {
    let mut whole = Vec::with_capacity(usize::try_from(content.length).map_err(std::io::Error::other)?);
    while let Some(piece) = content.bytes.next().await {
        whole.extend_from_slice(&piece?);
    }
    Ok(whole.into())
}
