//! The answer to a request that no route takes.

use axum::response::{IntoResponse, Response};
use sandyard_api::{ApiError, ErrorCode};

use super::failure::HttpFailure;

/// Says that there is no such route.
pub(in crate::http) async fn unknown_route() -> Response {
    let error = ApiError::new(ErrorCode::NotFound, "there is no such route");
    HttpFailure::from(error.with_hint("GET /docs shows them all")).into_response()
}
