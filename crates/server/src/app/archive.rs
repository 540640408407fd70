//! Archive: a folder of a live machine as a zip.

use std::fs::File;

use sandyard_sandbox::machine::Export;

use super::{AppError, Download, ErrorCode, Yard};
use crate::artifacts::{self, ArtifactError};
use crate::disk;
use crate::job::JobId;

impl Yard {
    /// Packs an export. The file has lost its name by the time it is returned, so it goes with its reader.
    pub async fn archive(&self, id: &JobId, export: Export) -> Result<Download, AppError> {
        if !self.context.admission.has_disk() {
            return Err(AppError::new(ErrorCode::DiskFull, "the yard's disk is full"));
        }
        let name = crate::job::random_id().map_err(|error| AppError::internal(&error))?;
        let path = self.context.layout.job(id).join(format!("archive-{name}.zip"));
        let bounds = &self.context.config.export;
        let stored = artifacts::store_export(export, &path, bounds, artifacts::Additions::default())
            .await
            .map_err(|error| refusal(&error))?;
        let opened = disk::blocking(move || {
            let file = File::open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        });
        let file = opened.await.map_err(|error| AppError::internal(&error))?;
        let artifact = stored.artifact;
        Ok(Download { file, length: artifact.bytes, sha256: artifact.sha256, file_name: format!("{id}.zip") })
    }
}

fn refusal(error: &ArtifactError) -> AppError {
    let message = match error {
        ArtifactError::TooLarge(_) => {
            return AppError::new(ErrorCode::TooLarge, "the folder is larger than an archive may be");
        }
        ArtifactError::Write(_) => return AppError::internal(error),
        ArtifactError::Guest(_) => "the sandbox can't be reached at the moment",
        ArtifactError::Deadline(_) => "the sandbox took too long",
    };
    AppError::new(ErrorCode::ExportFailed, message)
}
