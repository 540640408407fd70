//! Blobs in an object store: the blob `<job>/output.zip` is the object `<prefix>/<job>/output.zip` of a bucket.
//!
//! A put becomes visible when the store has all of it. A large one goes in parts, each with a checksum where the store knows them; one
//! that is interrupted is given up, and a rule of the bucket should remove what a killed server has left of it.

mod bucket;
mod location;
#[cfg(test)]
mod objects_tests;
#[cfg(test)]
pub(in crate::blobs) mod s3_double;
mod upload;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt};

pub use self::location::{BadBlobsUrl, BlobsLocation, CredentialVariables};

use self::bucket::Bucket;
use self::upload::put_stream;
use super::{
    BlobContent, BlobError, BlobErrorKind, BlobKey, BlobRange, BlobScope, BlobStream, Blobs, Durability,
    PAGE_KEYS, ScratchFile, read_file,
};
use crate::job::JobId;

/// Small blobs that are stored at the same time.
const PUTS_AT_ONCE: usize = 16;
/// Stands for a key in errors that concern no single one.
const ALL: &str = "*";

/// Blobs in a bucket, below a prefix.
#[derive(Debug)]
pub(crate) struct ObjectBlobs {
    bucket: Bucket,
    prefix: Path,
}

impl ObjectBlobs {
    /// The blobs of a bucket. Nothing is asked of it yet.
    fn new(bucket: Bucket, prefix: Path) -> Self {
        Self { bucket, prefix }
    }

    fn path(&self, key: &BlobKey) -> Path {
        self.below(&key.name())
    }

    /// Names have letters, digits, dots and slashes only, which no store changes.
    fn below(&self, name: &str) -> Path {
        name.split('/')
            .filter(|part| !part.is_empty())
            .fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// The key of an object; `None` for objects of others.
    fn key(&self, path: &Path) -> Option<BlobKey> {
        let below = path.as_ref().strip_prefix(self.prefix.as_ref())?;
        BlobKey::parse(below.trim_start_matches('/'))
    }

    async fn size(&self, path: &Path) -> Result<u64, object_store::Error> {
        Ok(self.bucket.objects.head(path).await?.size)
    }

    async fn open(&self, key: &BlobKey, range: BlobRange) -> Result<BlobContent, BlobError> {
        let (failed, path) = (failure(key.name()), self.path(key));
        let asked = match range {
            BlobRange::Whole => None,
            // No store has a word for a range without bytes.
            BlobRange::Bytes { start, length: 0 } => {
                let size = self.size(&path).await.map_err(failed)?;
                return if start <= size { Ok(empty()) } else { Err(beyond(key)) };
            }
            BlobRange::Bytes { start, length } => {
                let end = start.checked_add(length).ok_or_else(|| beyond(key))?;
                Some((start, end))
            }
        };
        let options = GetOptions {
            range: asked.map(|(start, end)| GetRange::Bounded(start..end)),
            ..GetOptions::default()
        };
        let found = match self.bucket.objects.get_opts(&path, options).await {
            Ok(found) => found,
            Err(error) => {
                // A store answers a range that begins behind the end with an error of its own.
                let is_short = match asked {
                    Some((_, end)) => self.size(&path).await.is_ok_and(|size| size < end),
                    None => false,
                };
                return Err(if is_short { beyond(key) } else { failure(key.name())(error) });
            }
        };
        // One that ends within the range is answered with what there is.
        if asked.is_some_and(|(_, end)| found.range.end < end) {
            return Err(beyond(key));
        }
        let length = found.range.end - found.range.start;
        Ok(BlobContent { length, bytes: found.into_stream().map_err(std::io::Error::other).boxed() })
    }
}

fn empty() -> BlobContent {
    BlobContent { length: 0, bytes: stream::empty().boxed() }
}

fn beyond(key: &BlobKey) -> BlobError {
    BlobError::new(key.name(), std::io::ErrorKind::UnexpectedEof.into())
}

/// The failure of a store about a key, whose name is given.
fn failure(name: String) -> impl FnOnce(object_store::Error) -> BlobError {
    move |error| {
        let kind = match &error {
            object_store::Error::NotFound { .. } => BlobErrorKind::NotFound,
            // Refused, throttled, out of reach: an operator or time may mend all of them.
            _ => BlobErrorKind::Transient,
        };
        BlobError::of_kind(kind, name, error)
    }
}

#[async_trait]
impl Blobs for ObjectBlobs {
    async fn put(&self, key: &BlobKey, bytes: BlobStream, _: Durability) -> Result<(), BlobError> {
        put_stream(&self.bucket, &self.path(key), bytes).await.map_err(|error| error.about(key.name()))
    }

    async fn put_file(&self, key: &BlobKey, file: ScratchFile) -> Result<(), BlobError> {
        let failed = |source| BlobError::new(key.name(), source);
        let file = file.into_unnamed();
        let length = file.metadata().map_err(failed)?.len();
        let bytes = read_file(file, 0, length).map_err(failed)?;
        self.put(key, bytes, Durability::Synced).await
    }

    async fn put_all(&self, blobs: Vec<(BlobKey, Bytes)>, _: Durability) -> Result<(), BlobError> {
        let puts = stream::iter(blobs).map(|(key, bytes)| async move {
            let put = self.bucket.objects.put(&self.path(&key), bytes.into()).await;
            put.map(drop).map_err(failure(key.name()))
        });
        puts.buffer_unordered(PUTS_AT_ONCE).try_collect().await
    }

    async fn get(&self, key: &BlobKey, range: BlobRange) -> Result<BlobContent, BlobError> {
        self.open(key, range).await
    }

    async fn length(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        match self.size(&self.path(key)).await {
            Ok(size) => Ok(Some(size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(key.name())(error)),
        }
    }

    async fn list(&self, scope: &BlobScope, after: Option<&BlobKey>) -> Result<Vec<BlobKey>, BlobError> {
        let prefix = self.below(&scope.prefix());
        let objects = &self.bucket.objects;
        let found = match after {
            Some(after) => objects.list_with_offset(Some(&prefix), &self.path(after)),
            None => objects.list(Some(&prefix)),
        };
        // Objects of others may lie between those of the yard.
        let keys = found.try_filter_map(|object| std::future::ready(Ok(self.key(&object.location))));
        keys.take(PAGE_KEYS).try_collect().await.map_err(failure(scope.prefix()))
    }

    async fn jobs(&self, after: Option<&JobId>) -> Result<Vec<JobId>, BlobError> {
        let found = self.bucket.folders(&self.prefix, after.map(JobId::as_str), PAGE_KEYS).await;
        let names = found.map_err(failure(ALL.to_owned()))?;
        Ok(names.iter().filter_map(|name| JobId::parse(name)).collect())
    }

    async fn remove(&self, keys: Vec<BlobKey>) -> Result<(), BlobError> {
        let paths: Vec<Path> = keys.iter().map(|key| self.path(key)).collect();
        self.bucket.remove(paths).await.map_err(failure(ALL.to_owned()))
    }

    async fn remove_all(&self, scope: &BlobScope) -> Result<(), BlobError> {
        let prefix = self.below(&scope.prefix());
        let listed = self.bucket.objects.list(Some(&prefix)).map_ok(|object| object.location);
        let paths: Vec<Path> = listed.try_collect().await.map_err(failure(scope.prefix()))?;
        self.bucket.remove(paths).await.map_err(failure(scope.prefix()))
    }
}
