//! `GET /jobs/{id}/files/{path}?archive=zip`.

use sandyard_api::{ApiError, ErrorCode};

use super::HttpState;
use super::failure::Answer;
use crate::job_id::JobId;

/// A folder of a live sandbox as a zip.
pub(super) async fn read(_: &HttpState, id: &JobId, _: &str) -> Answer {
    Err(ApiError::new(ErrorCode::RouteNotAvailable, "archives of a live folder can't be made in this build")
        .with_hint(format!("/jobs/{id}/download has the whole workspace once the job has ended"))
        .into())
}
