//! Blobs in memory, for tests. Proves that the contract needs no files.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use parking_lot::{Mutex, MutexGuard};

use super::{
    BlobContent, BlobError, BlobKey, BlobRange, BlobScope, BlobStream, Blobs, Durability, PAGE_KEYS,
    ScratchFile,
};
use crate::job::JobId;

/// Blobs by name, in memory. A put replaces the whole value, so readers never see part of one.
#[derive(Debug, Default)]
pub(crate) struct MemoryBlobs(Mutex<BTreeMap<String, Bytes>>);

impl MemoryBlobs {
    fn blobs(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.0.lock()
    }
}

#[async_trait]
impl Blobs for MemoryBlobs {
    async fn put(&self, key: &BlobKey, mut bytes: BlobStream, _: Durability) -> Result<(), BlobError> {
        let mut whole = Vec::new();
        while let Some(piece) = bytes.next().await {
            whole.extend_from_slice(&piece.map_err(|error| BlobError::new(key.name(), error))?);
        }
        self.blobs().insert(key.name(), whole.into());
        Ok(())
    }

    async fn put_file(&self, key: &BlobKey, file: ScratchFile) -> Result<(), BlobError> {
        let mut file = file.into_unnamed();
        let mut whole = Vec::new();
        let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut whole));
        read.map_err(|error| BlobError::new(key.name(), error))?;
        self.blobs().insert(key.name(), whole.into());
        Ok(())
    }

    async fn put_all(&self, blobs: Vec<(BlobKey, Bytes)>, _: Durability) -> Result<(), BlobError> {
        self.blobs().extend(blobs.into_iter().map(|(key, bytes)| (key.name(), bytes)));
        Ok(())
    }

    async fn get(&self, key: &BlobKey, range: BlobRange) -> Result<BlobContent, BlobError> {
        let failed = |kind: io::ErrorKind| BlobError::new(key.name(), kind.into());
        let whole = self.blobs().get(&key.name()).cloned().ok_or_else(|| failed(io::ErrorKind::NotFound))?;
        let (start, length) = match range {
            BlobRange::Whole => (0, whole.len() as u64),
            BlobRange::Bytes { start, length } => (start, length),
        };
        if start.checked_add(length).is_none_or(|end| end > whole.len() as u64) {
            return Err(failed(io::ErrorKind::UnexpectedEof));
        }
        let part = whole.slice(start as usize..(start + length) as usize);
        Ok(BlobContent { length, bytes: stream::iter([Ok(part)]).boxed() })
    }

    async fn length(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        Ok(self.blobs().get(&key.name()).map(|bytes| bytes.len() as u64))
    }

    async fn list(&self, scope: &BlobScope, after: Option<&BlobKey>) -> Result<Vec<BlobKey>, BlobError> {
        let (prefix, after) = (scope.prefix(), after.map(BlobKey::name).unwrap_or_default());
        let blobs = self.blobs();
        let names = blobs.keys().filter(|name| name.starts_with(&prefix) && **name > after);
        Ok(names.filter_map(|name| BlobKey::parse(name)).take(PAGE_KEYS).collect())
    }

    async fn jobs(&self, after: Option<&JobId>) -> Result<Vec<JobId>, BlobError> {
        let blobs = self.blobs();
        let mut jobs: Vec<JobId> =
            blobs.keys().filter_map(|name| BlobKey::parse(name)).map(|key| key.job).collect();
        jobs.dedup();
        jobs.retain(|job| after.is_none_or(|after| job > after));
        jobs.truncate(PAGE_KEYS);
        Ok(jobs)
    }

    async fn remove(&self, keys: Vec<BlobKey>) -> Result<(), BlobError> {
        let mut blobs = self.blobs();
        keys.iter().for_each(|key| drop(blobs.remove(&key.name())));
        Ok(())
    }

    async fn remove_all(&self, scope: &BlobScope) -> Result<(), BlobError> {
        let prefix = scope.prefix();
        self.blobs().retain(|name, _| !name.starts_with(&prefix));
        Ok(())
    }
}
