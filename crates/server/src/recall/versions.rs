//! Versions of files as they were when a job read or wrote them.

use sandyard_memory::{ContentDigest, SourceOrigin};

use super::citation::{RecalledPassage, RecalledPassages, RecalledPlace};
use super::sources::JobSources;
use crate::job::{JobRow, TextRow};
use crate::store::StoreError;

/// Bytes that are returned of one version.
const MAX_VERSION_BYTES: usize = 256 * 1024;

/// Versions of a file that the job has read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersions {
    /// Path in the workspace.
    pub path: String,
    /// Only versions from before this journal entry.
    pub before: u64,
    /// Versions wanted.
    pub count: usize,
}

impl JobSources {
    /// Returns versions of a file, newest first.
    pub(super) async fn versions(
        &self,
        row: &JobRow,
        versions: &FileVersions,
    ) -> Result<RecalledPassages, StoreError> {
        let FileVersions { path, before, count } = versions;
        let found = self.store.texts_of(row.number, path, *before, *count).await?;
        let mut answer = RecalledPassages::default();
        for text in found.into_iter().filter(|text| text.origin == SourceOrigin::File) {
            match self.version(row, text).await? {
                Some(passage) => answer.passages.push(passage),
                None => answer.unverified += 1,
            }
        }
        Ok(answer)
    }

    async fn version(&self, row: &JobRow, text: TextRow) -> Result<Option<RecalledPassage>, StoreError> {
        let TextRow { number, entry, origin, path, at_ms, digest, bytes } = text;
        let read = self.texts.read(&row.id, row.number, digest, bytes).await?;
        Ok(read.map(|mut bytes| {
            bytes.truncate(MAX_VERSION_BYTES);
            let newlines = bytes.iter().filter(|&&byte| byte == b'\n').count() as u32;
            let last_line = if bytes.ends_with(b"\n") { newlines } else { newlines + 1 };
            let place = RecalledPlace {
                entry,
                part: 0,
                text: Some(number),
                origin,
                path,
                at_ms: u64::try_from(at_ms).unwrap_or(0),
                start: 0,
                lines: (1, last_line),
            };
            let digest = ContentDigest::of(&bytes);
            RecalledPassage { bytes, name: String::new(), score: 1.0, digest, place, seen: 1, first: None }
        }))
    }
}
