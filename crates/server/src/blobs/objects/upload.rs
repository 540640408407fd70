//! Puts of streams whose length nobody knows before: one object, or parts of one.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, WriteMultipart};

use super::bucket::Bucket;
use crate::blobs::{BlobError, BlobStream};

/// Size of a part, and the largest blob that goes whole. S3 takes 10,000 parts: 80 GiB.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// Parts under way at once.
const PARTS_AT_ONCE: usize = 4;

/// A put that failed: the store did, or the stream.
pub(super) enum PutFailure {
    Store(object_store::Error),
    Source(io::Error),
}

impl PutFailure {
    pub(super) fn about(self, name: String) -> BlobError {
        match self {
            Self::Store(error) => super::failure(name)(error),
            Self::Source(error) => BlobError::new(name, error),
        }
    }
}

impl From<object_store::Error> for PutFailure {
    fn from(error: object_store::Error) -> Self {
        Self::Store(error)
    }
}

/// Stores the bytes of a stream, which become visible together.
pub(super) async fn put_stream(
    bucket: &Bucket,
    path: &Path,
    mut bytes: BlobStream,
) -> Result<(), PutFailure> {
    let mut first = BytesMut::new();
    while let Some(piece) = bytes.next().await {
        first.extend_from_slice(&piece.map_err(PutFailure::Source)?);
        if first.len() > PART_BYTES {
            return put_parts(bucket, path, first.freeze(), bytes).await;
        }
    }
    bucket.objects.put(path, first.freeze().into()).await?;
    Ok(())
}

async fn put_parts(
    bucket: &Bucket,
    path: &Path,
    first: Bytes,
    mut rest: BlobStream,
) -> Result<(), PutFailure> {
    let upload = bucket.objects.put_multipart(path).await?;
    let mut parts = GivenUp(Some(WriteMultipart::new_with_chunk_size(upload, PART_BYTES)));
    parts.put(first).await?;
    while let Some(piece) = rest.next().await {
        parts.put(piece.map_err(PutFailure::Source)?).await?;
    }
    parts.finish().await
}

/// An upload that is given up when it is dropped before its end: the store keeps its parts otherwise.
struct GivenUp(Option<WriteMultipart>);

impl GivenUp {
    async fn put(&mut self, bytes: Bytes) -> Result<(), PutFailure> {
        if let Some(parts) = &mut self.0 {
            parts.wait_for_capacity(PARTS_AT_ONCE).await?;
            parts.put(bytes);
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<(), PutFailure> {
        if let Some(parts) = self.0.take() {
            // Gives the upload up by itself when that fails.
            parts.finish().await?;
        }
        Ok(())
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        let Some(parts) = self.0.take() else { return };
        // A runtime that ends takes the request with it; the bucket's rule removes the parts then.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = parts.abort().await {
                    tracing::warn!(%error, "an interrupted upload could not be given up");
                }
            });
        }
    }
}
