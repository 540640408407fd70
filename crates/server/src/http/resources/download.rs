//! `GET /jobs/{id}/download`: the result of an ended job.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::ETAG;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::IntoResponse;
use sandyard_api::ErrorBody;

use crate::http::HttpState;
use crate::http::request::conditions::{none_match, tag_value};
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::content::ContentHead;
use crate::http::response::failure::{HttpAnswer, HttpFailure};
use crate::http::response::ranges::{ContentPart, requested};

/// The workspace as a zip, for every ended job. Takes ranges.
#[utoipa::path(
    get, path = "/jobs/{id}/download", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("ticket" = Option<String>, Query, description = "From POST /jobs/{id}/tickets"),
        ("Range" = Option<String>, Header, description = "One range of bytes"),
    ),
    responses(
        (status = 200, description = "The zip", body = Vec<u8>, content_type = "application/zip"),
        (status = 206, description = "A part of it", body = Vec<u8>, content_type = "application/zip"),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has not ended", body = ErrorBody),
        (status = 416, description = "A range outside of it", body = ErrorBody),
    )
)]
pub(in crate::http) async fn read(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> HttpAnswer {
    query(&uri, &["ticket"])?;
    let download = state.yard().download(&job).await?;
    let tag = format!("\"{}\"", download.sha256);
    if none_match(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag_value(&tag))]).into_response());
    }
    let part = requested(&headers, download.length, &tag);
    let (start, length) = match part {
        ContentPart::Whole => (0, download.length),
        ContentPart::Range { start, length } => (start, length),
        ContentPart::Outside => return Err(HttpFailure::outside(download.length)),
    };
    let file_name = download.file_name.clone();
    let head = ContentHead {
        kind: "application/zip",
        file_name: &file_name,
        tag: &tag,
        length: download.length,
        part,
    };
    let body = match method {
        Method::HEAD => Body::empty(),
        _ => Body::from_stream(download.read(start, length).await?),
    };
    Ok(head.answer(body))
}
