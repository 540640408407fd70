//! `GET /jobs/{id}/audit`: the records of a job, a line each, and their signed head in the last line.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::IntoResponse;
use sandyard_api::ErrorBody;

use super::HttpState;
use super::failure::Answer;
use super::parts::{Job, none_match, query};

/// The audit of a job: one JSON object on each line, in order, then `{"head": …}` with what was signed. With `after`, only the
/// records behind that number.
#[utoipa::path(
    get, path = "/jobs/{id}/audit", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("after" = Option<u64>, Query, description = "The number of the last record that is known"),
        ("If-None-Match" = Option<String>, Header, description = "The ETag of an earlier answer"),
    ),
    responses(
        (status = 200, description = "The records", body = String, content_type = "application/x-ndjson"),
        (status = 304, description = "Nothing was added"),
        (status = 404, body = ErrorBody),
    )
)]
pub(super) async fn read(
    State(state): State<HttpState>,
    Job(id): Job,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let query = query(&uri, &["after"])?;
    let after = query.whole("after", 0..=u64::from(u32::MAX))?.unwrap_or(0);
    let audit = state.yard().audit(&id, after).await?;
    let tag = format!("\"{}-{after}\"", audit.head.head);
    let tag_value = HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""));
    let fields = [
        (ETAG, tag_value),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
    ];
    if none_match(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, fields).into_response());
    }
    Ok((fields, Body::from_stream(audit.lines)).into_response())
}
