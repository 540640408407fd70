//! The last picture of an ended job's desktop, kept beside the job.

use std::io;

use super::{AppError, ErrorKind, Yard};
use crate::job_id::JobId;
use crate::layout;

impl Yard {
    /// The last picture; not found if the job had no desktop.
    pub async fn last_screenshot(&self, id: &JobId) -> Result<Vec<u8>, AppError> {
        self.row(id).await?;
        let path = self.shared.layout.screenshot(id);
        match layout::blocking(move || std::fs::read(path)).await {
            Ok(png) => Ok(png),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(AppError::new(ErrorKind::NotFound, "no_screenshot", "this job had no desktop"))
            }
            Err(error) => Err(AppError::internal(&error)),
        }
    }
}
