//! Archive: a folder of a live machine as a zip.

use sandyard_sandbox::machine::Export;

use super::download::DownloadSource;
use super::{AppError, Download, ErrorCode, JobAccess, Yard};
use crate::artifacts::{self, ArtifactError};
use crate::auth::AccessScope;

impl Yard {
    /// Packs an export into a scratch file, which is removed when the download is over.
    pub async fn archive(&self, job: &JobAccess, export: Export) -> Result<Download, AppError> {
        job.require(AccessScope::UseSandbox)?;
        // The zip needs space on the yard's own disk, beside everything that is promised.
        let disk_mib = self.row(job.id()).await?.limits.machine.disk_mib;
        let used_mib = self.context.admission.look_at_disk_use_mib(job.id());
        if !self.context.admission.may_write(artifacts::expected_bytes(used_mib, disk_mib)) {
            return Err(AppError::new(ErrorCode::DiskFull, "the yard's disk has no room for the archive")
                .retry_after(30));
        }
        let bounds = &self.context.config.export.on_a_disk(disk_mib);
        let additions = artifacts::HostAdditions::default();
        let packed = artifacts::pack_export(export, &self.context.scratch, bounds, additions)
            .await
            .map_err(|error| refusal(&error))?;
        let (artifact, source) = (packed.artifact, DownloadSource::Scratch(packed.file));
        let file_name = format!("{}.zip", job.id());
        Ok(Download { length: artifact.bytes, sha256: artifact.sha256, file_name, source })
    }
}

fn refusal(error: &ArtifactError) -> AppError {
    let message = match error {
        ArtifactError::TooLarge(_) => {
            return AppError::new(ErrorCode::TooLarge, "the folder is larger than an archive may be");
        }
        ArtifactError::Write(_) | ArtifactError::Store(_) => return AppError::internal(error),
        ArtifactError::Guest(_) => "the sandbox can't be reached at the moment",
        ArtifactError::Deadline(_) => "the sandbox took too long",
    };
    AppError::new(ErrorCode::ExportFailed, message)
}
