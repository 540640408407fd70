//! Download: the artifact of an ended job.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;

use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::artifacts::pack_audit;
use crate::auth::AccessScope;
use crate::blobs::{BlobKey, BlobNoun, BlobRange, Blobs, ScratchFile, read_file};
use crate::job::JobRow;

/// The bytes of a download, in order.
pub type DownloadStream = Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>;

/// A zip that can be read.
pub struct Download {
    /// Length of the whole zip, in bytes.
    pub length: u64,
    /// SHA-256 of the whole zip in hexadecimal, an entity tag.
    pub sha256: String,
    /// A name for the file, safe for a header: `<name or id>.zip` in ASCII.
    pub file_name: String,
    pub(super) source: DownloadSource,
}

/// Where the bytes of a download are.
pub(super) enum DownloadSource {
    /// The stored result of a job.
    Blob(Arc<dyn Blobs>, BlobKey),
    /// A zip that was made for this download alone.
    Scratch(ScratchFile),
}

impl Download {
    /// Reads `length` bytes from `start` on; both must be within the zip. A stream that has begun is not disturbed when the
    /// job is deleted.
    pub async fn read(self, start: u64, length: u64) -> Result<DownloadStream, AppError> {
        match self.source {
            DownloadSource::Blob(blobs, key) => {
                let content = blobs.get(&key, BlobRange::Bytes { start, length }).await;
                content.map(|content| content.bytes).map_err(|error| AppError::internal(&error))
            }
            DownloadSource::Scratch(file) => {
                read_file(file.into_unnamed(), start, length).map_err(|error| AppError::internal(&error))
            }
        }
    }
}

impl Yard {
    /// Returns the artifact of an ended job; a conflict if the job has not ended.
    pub async fn download(&self, job: &JobAccess) -> Result<Download, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        if !row.state.is_terminal() {
            let message = format!("the job is {}; its download comes at its end", row.state.as_str());
            return Err(
                AppError::new(ErrorCode::NotEnded, message).hint("wait for it with GET /status/{id}?wait=30")
            );
        }
        let file_name = file_name(&row);
        let Some(artifact) = row.artifact.clone() else {
            if row.begun {
                return Err(missing());
            }
            // A job that never began has no files. Its audit alone makes a zip that programs accept and `audit verify` can check.
            let packed = pack_audit(&self.context.store, &self.context.scratch, &row).await;
            let (artifact, file) = packed.map_err(|error| AppError::internal(&error))?;
            let (length, source) = (artifact.bytes, DownloadSource::Scratch(file));
            return Ok(Download { length, sha256: artifact.sha256, file_name, source });
        };
        let key = BlobKey::new(job.id(), BlobNoun::ResultArchive);
        let found = self.context.blobs.length(&key).await.map_err(|error| AppError::internal(&error))?;
        // Before the headers are sent: afterwards a damaged archive could only break the connection off.
        if found != Some(artifact.bytes) {
            return Err(AppError::internal(&DamagedResult { found, expected: artifact.bytes }));
        }
        let source = DownloadSource::Blob(Arc::clone(&self.context.blobs), key);
        Ok(Download { length: artifact.bytes, sha256: artifact.sha256, file_name, source })
    }
}

/// The stored archive is missing or not the one that was committed. Found before the answer's headers promise a length.
#[derive(Debug, thiserror::Error)]
#[error("the stored archive has {found:?} bytes, {expected} were committed")]
struct DamagedResult {
    found: Option<u64>,
    expected: u64,
}

fn missing() -> AppError {
    AppError::new(ErrorCode::NoArtifact, "the workspace of this job could not be saved")
        .hint("its status says why")
}

/// ASCII letters, digits, dot, dash and underscore of the name, or the id.
fn file_name(row: &JobRow) -> String {
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || "._-".contains(*letter);
    let name: String = row.name.iter().flat_map(|name| name.chars()).filter(plain).take(80).collect();
    let name = name.trim_matches('.');
    format!("{}.zip", if name.is_empty() { row.id.as_str() } else { name })
}
