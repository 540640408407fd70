//! Routes of the contract whose capability this build lacks: they say so, rather than that there is no such route.

use axum::extract::State;
use sandyard_api::{ApiError, ErrorCode};

use crate::app::WithOutput;
use crate::http::HttpState;
use crate::http::request::extract::RouteJob;
use crate::http::response::failure::HttpAnswer;

/// Reports that the capability is missing; a job that was deleted is still an unknown job.
pub(in crate::http) async fn refuse(State(state): State<HttpState>, RouteJob(job): RouteJob) -> HttpAnswer {
    state.yard().status(&job, WithOutput::Without).await?;
    Err(ApiError::new(ErrorCode::RouteNotAvailable, "this build does not have this capability yet")
        .with_hint("GET /docs shows what it has")
        .into())
}
