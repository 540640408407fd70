//! `GET /jobs/{id}/logs`: the whole output of a job.

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use sandyard_api::{ApiError, ErrorBody, ErrorCode};
use sandyard_protocol::OutputStream;

use crate::http::HttpState;
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::HttpAnswer;

/// The whole output so far, byte for byte, up to the stream's cap.
#[utoipa::path(
    get, path = "/jobs/{id}/logs", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("stream" = Option<String>, Query, description = "`stdout` (if not given) or `stderr`"),
    ),
    responses((status = 200, description = "The output", body = String, content_type = "text/plain"), (status = 404, body = ErrorBody))
)]
pub(in crate::http) async fn read(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    let query = query(&uri, &["stream"])?;
    let stream = match query.text("stream") {
        None | Some("stdout") => OutputStream::Stdout,
        Some("stderr") => OutputStream::Stderr,
        Some(_) => {
            return Err(ApiError::new(ErrorCode::BadRequest, "`stream` must be `stdout` or `stderr`").into());
        }
    };
    let log = state.yard().logs(&job, stream).await?;
    let mut response = Response::new(Body::from_stream(log.bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if let Some(length) = log.length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}
