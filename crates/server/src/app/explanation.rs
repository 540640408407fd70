//! The explanation of a job's result.

use sandyard_explain::Explanation;
use sandyard_explain::page::PageDiagram;

use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::artifacts::StoredExplanation;
use crate::auth::AccessScope;
use crate::blobs::{BlobErrorKind, BlobKey, BlobNoun, BlobRange};

/// The explanation of a result. Its texts and pictures come from a sandbox and must be sanitised before they are shown.
#[derive(Debug, Clone)]
pub struct ResultExplanation {
    /// Parts, uses with their evidence, and the page in Markdown.
    pub explanation: Explanation,
    /// Pictures as Graphviz wrote them, that of all parts first; empty if the image had no Graphviz.
    pub diagrams: Vec<PageDiagram>,
}

impl Yard {
    /// Returns the explanation of an ended job's result.
    pub async fn explanation(&self, job: &JobAccess) -> Result<ResultExplanation, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        if !row.state.is_terminal() {
            let message = format!("the job is {}; its explanation comes at its end", row.state.as_str());
            return Err(
                AppError::new(ErrorCode::NotEnded, message).hint("wait for it with GET /status/{id}?wait=30")
            );
        }
        let key = BlobKey::new(job.id(), BlobNoun::Explanation);
        let bytes = match self.context.blobs.read(&key, BlobRange::Whole).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind == BlobErrorKind::NotFound => return Err(unexplained()),
            Err(error) => return Err(AppError::internal(&error)),
        };
        // Megabytes of JSON take milliseconds, which other connections of this thread must not wait for.
        let parsed = tokio::task::spawn_blocking(move || serde_json::from_slice(&bytes)).await;
        match parsed {
            Ok(Ok(StoredExplanation { explanation, diagrams })) => {
                Ok(ResultExplanation { explanation, diagrams })
            }
            Ok(Err(error)) => Err(AppError::internal(&error)),
            Err(error) => Err(AppError::internal(&error)),
        }
    }
}

fn unexplained() -> AppError {
    AppError::new(ErrorCode::NotExplained, "the result of this job has no explanation")
        .hint("results that hold source code are explained; `sandyard explain FOLDER` explains any folder")
}
