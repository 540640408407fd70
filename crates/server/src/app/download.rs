//! Download: the artifact of an ended job.

use std::fs::File;

use super::{AppError, ErrorCode, Yard};
use crate::artifacts::{EMPTY_ZIP, empty_sha256};
use crate::disk;
use crate::job::JobId;
use crate::job::JobRow;

/// An artifact, open for reading: it stays readable even if retention removes it meanwhile.
pub struct Download {
    /// The zip.
    pub file: File,
    /// Its length.
    pub length: u64,
    /// Its SHA-256 in hexadecimal, an entity tag.
    pub sha256: String,
    /// A name for the file, safe for a header: `<name or id>.zip` in ASCII.
    pub file_name: String,
}

impl Yard {
    /// The artifact of an ended job; a conflict before.
    pub async fn download(&self, id: &JobId) -> Result<Download, AppError> {
        let row = self.row(id).await?;
        if !row.state.is_terminal() {
            let message = format!("the job is {}; its download comes at its end", row.state.as_str());
            return Err(
                AppError::new(ErrorCode::NotEnded, message).hint("wait for it with GET /status/{id}?wait=30")
            );
        }
        let path = self.context.layout.artifact(id);
        let (length, sha256) = match &row.artifact {
            Some(artifact) => (artifact.bytes, artifact.sha256.clone()),
            None if row.begun => return Err(missing()),
            None => {
                // A job that never began has an empty workspace; its archive is made when somebody asks.
                let target = path.clone();
                let made = disk::blocking(move || disk::write_durably(&target, &[EMPTY_ZIP])).await;
                made.map_err(|error| AppError::internal(&error))?;
                (EMPTY_ZIP.len() as u64, empty_sha256())
            }
        };
        let file = File::open(&path).map_err(|error| AppError::internal(&error))?;
        Ok(Download { file, length, sha256, file_name: file_name(&row) })
    }
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
