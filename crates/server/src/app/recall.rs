//! Questions to the memory of a job, live or ended, and what its model read.

use sandyard_memory::SourceOrigin;
use sandyard_protocol::{ContextPart, ErrorChain, JournalEntry, ModelUsage};

use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::auth::AccessScope;
use crate::recall::{
    CallMemory, FileVersions, PACKING_PATH, PlainText, RecallError, RecallQuery, RecalledPassages, TextOwner,
};

/// Entries read at once in the search for an answer.
const PAGE_ENTRIES: usize = 64;
/// Bytes read at once.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// What a model read for one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelContext {
    /// Number of the answer in the journal.
    pub entry: u64,
    /// Name of the model.
    pub model: String,
    /// When the answer was stored, in milliseconds since 1970.
    pub at_ms: i64,
    /// The provider's count of tokens.
    pub usage: ModelUsage,
    /// The parts of the call; empty if all of the journal before the answer was in it as it is.
    pub parts: Vec<ContextPart>,
}

impl Yard {
    /// Finds passages of everything that a job has seen, each checked against what is stored.
    pub async fn recall(&self, job: &JobAccess, query: &RecallQuery) -> Result<RecalledPassages, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        match self.context.recall.recall(&row, query).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(AppError::new(ErrorCode::RouteNotAvailable, "this server has no reader")),
            Err(RecallError::Store(error)) => Err(error.into()),
            Err(error) => {
                tracing::error!(job = %row.id, cause = %ErrorChain(&error), "nothing could be recalled");
                Err(AppError::new(ErrorCode::Internal, "the memory of this job could not be asked")
                    .hint("the reader needs Linux 5.13 with Landlock; `sandyard doctor` tells"))
            }
        }
    }

    /// Returns versions of a file as they were read or written, newest first.
    pub async fn file_versions(
        &self,
        job: &JobAccess,
        versions: &FileVersions,
    ) -> Result<RecalledPassages, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        Ok(self.context.recall.versions(&row, versions).await?)
    }

    /// Begins the memory of a call on a job's sandbox.
    pub(crate) async fn remember_call(
        &self,
        job: &JobAccess,
        path: &str,
        output: SourceOrigin,
        call: &str,
    ) -> Result<CallMemory, AppError> {
        let owner = self.text_owner(job).await?;
        Ok(CallMemory::new(self.context.recall.texts().clone(), owner, path, output, call))
    }

    /// Keeps a file that a caller wrote. The write has happened, so a failure is only logged.
    pub(crate) async fn remember_file(&self, job: &JobAccess, path: &str, bytes: Vec<u8>) {
        let Ok(owner) = self.text_owner(job).await else { return };
        let text = PlainText { origin: SourceOrigin::File, path: path.to_owned(), bytes: bytes.into() };
        if let Err(error) = self.context.recall.texts().keep(&owner, vec![text]).await {
            tracing::warn!(job = %job.id(), error = %ErrorChain(&error), "a file is missing in the memory");
        }
    }

    async fn text_owner(&self, job: &JobAccess) -> Result<TextOwner, AppError> {
        job.require(AccessScope::UseSandbox)?;
        Ok(TextOwner { id: job.id().clone(), number: self.row(job.id()).await?.number, epoch: None })
    }

    /// Returns what the model read for its first answer at or behind a journal entry; `None` if there is no such answer.
    pub async fn model_context(&self, job: &JobAccess, entry: u64) -> Result<Option<ModelContext>, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        let store = &self.context.store;
        let mut next = entry.max(1);
        loop {
            let page = store.journal(row.number, next, PAGE_ENTRIES, PAGE_BYTES).await?;
            let Some(last) = page.last().map(|row| row.number) else { return Ok(None) };
            next = last + 1;
            let answered = page.into_iter().find_map(|row| match row.entry {
                JournalEntry::Answer { model, usage, .. } => Some((row.number, row.at_ms, model, usage)),
                _ => None,
            });
            let Some((entry, at_ms, model, usage)) = answered else { continue };
            let texts = store.texts_at(row.number, entry, PAGE_ENTRIES).await?;
            let mut parts = Vec::new();
            if let Some(text) = texts.into_iter().find(|text| text.path == PACKING_PATH) {
                let texts = self.context.recall.texts();
                let log = texts.read(&row.id, row.number, text.digest, text.bytes).await?;
                let log = log.and_then(|log| serde_json::from_slice(&log).ok());
                parts = log.ok_or_else(|| {
                    AppError::new(ErrorCode::Internal, "the log of this packing can't be read")
                })?;
            }
            return Ok(Some(ModelContext { entry, model, at_ms, usage, parts }));
        }
    }
}
