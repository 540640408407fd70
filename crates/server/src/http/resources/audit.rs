//! `GET /jobs/{id}/audit` and `GET /audit`: the records of a job or of the yard, a line each, and their signed head in the last line.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use sandyard_api::ErrorBody;

use crate::app::Audit;
use crate::http::HttpState;
use crate::http::request::conditions::{none_match, tag_value};
use crate::http::request::extract::{RouteCaller, RouteJob};
use crate::http::request::query::query;
use crate::http::response::failure::{HttpAnswer, HttpFailure};

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
pub(in crate::http) async fn read(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
    headers: HeaderMap,
) -> HttpAnswer {
    let after = after(&uri)?;
    Ok(answer(state.yard().audit(&job, after).await?, after, &headers))
}

/// The yard's own audit: who cancelled and deleted which job, and with which keys and settings servers began. It outlives all jobs,
/// and has the same form as theirs.
#[utoipa::path(
    get, path = "/audit", tag = "yard",
    params(
        ("after" = Option<u64>, Query, description = "The number of the last record that is known"),
        ("If-None-Match" = Option<String>, Header, description = "The ETag of an earlier answer"),
    ),
    responses(
        (status = 200, description = "The records", body = String, content_type = "application/x-ndjson"),
        (status = 304, description = "Nothing was added"),
    )
)]
pub(in crate::http) async fn read_yard(
    State(state): State<HttpState>,
    RouteCaller(caller): RouteCaller,
    uri: Uri,
    headers: HeaderMap,
) -> HttpAnswer {
    let after = after(&uri)?;
    Ok(answer(state.yard().yard_audit(&caller, after).await?, after, &headers))
}

fn after(uri: &Uri) -> Result<u64, HttpFailure> {
    Ok(query(uri, &["after"])?.whole("after", 0..=u64::from(u32::MAX))?.unwrap_or(0))
}

fn answer(audit: Audit, after: u64, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}-{after}\"", audit.head.head);
    let fields = [
        (ETAG, tag_value(&tag)),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
    ];
    if none_match(headers, &tag) {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    (fields, Body::from_stream(audit.lines)).into_response()
}
