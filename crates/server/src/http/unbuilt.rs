//! Routes of the contract whose capability this build lacks: they say so, rather than that there is no such route.

use axum::extract::State;
use axum::http::Uri;
use sandyard_api::{ApiError, ErrorCode};

use super::HttpState;
use super::failure::Answer;
use super::parts::job_segment;
use crate::app::{AppError, WithOutput};
use crate::job::JobId;

/// All of them.
pub(super) const PATHS: [&str; 4] =
    ["/jobs/{id}/explained", "/jobs/{id}/diagram.svg", "/jobs/{id}/diagram.dot", "/jobs/{id}/recall"];

/// Says that the capability is not there; an unknown job is still an unknown job.
pub(super) async fn refuse(State(state): State<HttpState>, uri: Uri) -> Answer {
    if let Some(segment) = job_segment(uri.path()) {
        let id = JobId::parse(segment).ok_or_else(AppError::unknown_job)?;
        state.yard().status(&id, WithOutput::Without).await?;
    }
    Err(ApiError::new(ErrorCode::RouteNotAvailable, "this build does not have this capability yet")
        .with_hint("GET /docs shows what it has")
        .into())
}
