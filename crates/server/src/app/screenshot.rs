//! Screenshots of a job: the last one of its desktop, a blob, and those that a task looked at, in its journal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandyard_protocol::{JournalEntry, ModelPart};

use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::auth::AccessScope;
use crate::blobs::{BlobErrorKind, BlobKey, BlobNoun, BlobRange};

/// The first bytes of every PNG.
const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

impl Yard {
    /// Returns the last screenshot; an error if the job had no desktop.
    pub async fn last_screenshot(&self, job: &JobAccess) -> Result<Vec<u8>, AppError> {
        job.require(AccessScope::ReadJobs)?;
        self.row(job.id()).await?;
        let key = BlobKey::new(job.id(), BlobNoun::LastScreenshot);
        match self.context.blobs.read(&key, BlobRange::Whole).await {
            Ok(png) => Ok(png.into()),
            Err(error) if error.kind == BlobErrorKind::NotFound => {
                Err(AppError::new(ErrorCode::NoScreenshot, "this job had no desktop"))
            }
            Err(error) => Err(AppError::internal(&error)),
        }
    }

    /// Returns a picture that a task looked at, as a `screenshot` event names it.
    pub async fn seen_picture(&self, job: &JobAccess, entry: u64, picture: u64) -> Result<Vec<u8>, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        let rows = self.context.store.journal(row.number, entry, 1, usize::MAX).await?;
        let found = rows.into_iter().find(|row| row.number == entry).and_then(|row| png(row.entry, picture));
        found.ok_or_else(|| {
            AppError::new(ErrorCode::NoScreenshot, "the job's journal has no such picture")
                .hint("`screenshot` events of the job name entry and picture")
        })
    }
}

/// The bytes come from the sandbox: they are served as a PNG only if they begin as one.
fn png(entry: JournalEntry, picture: u64) -> Option<Vec<u8>> {
    let JournalEntry::StepEnded { parts, .. } = entry else { return None };
    let ModelPart::Png { base64 } = parts.get(usize::try_from(picture).ok()?)? else { return None };
    STANDARD.decode(base64).ok().filter(|bytes| bytes.starts_with(PNG_SIGNATURE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bytes: &[u8]) -> JournalEntry {
        JournalEntry::StepEnded {
            call: "1".to_owned(),
            parts: vec![
                ModelPart::Text { text: "a window".to_owned() },
                ModelPart::Png { base64: STANDARD.encode(bytes) },
            ],
            failed: false,
            interrupted: false,
            took_ms: 1,
            files: Vec::new(),
        }
    }

    #[test]
    fn only_what_begins_as_a_picture_is_one() {
        let bytes = [PNG_SIGNATURE, b"pixels"].concat();
        assert_eq!(png(entry(&bytes), 1), Some(bytes));
        assert_eq!(png(entry(b"<script>"), 1), None);
        assert_eq!(png(entry(PNG_SIGNATURE), 0), None);
        assert_eq!(png(entry(PNG_SIGNATURE), 2), None);
    }
}
