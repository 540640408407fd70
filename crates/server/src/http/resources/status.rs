//! `GET /status/{id}` and `GET /jobs/{id}`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use sandyard_api::{ApiError, ErrorBody, ErrorCode, JobView, bounds};
use serde_json::{Map, Value};

use crate::app::{AppError, AwaitedChange, FullJobStatus, KnownStatus, WithOutput};
use crate::http::HttpState;
use crate::http::request::conditions::none_match;
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::{HttpAnswer, HttpFailure};
use crate::http::response::views;

/// A job's status. With `wait`, answers when the state changes, or when the job has ended, or the time is up.
#[utoipa::path(
    get, path = "/status/{id}", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("wait" = Option<u64>, Query, description = "Seconds to wait for what `wait_for` names, at most 300"),
        ("wait_for" = Option<String>, Query, description = "`change` (the next change of state, the default) or `end` (the end of the job)"),
        ("fields" = Option<String>, Query, description = "Only these members, separated by commas"),
        ("If-None-Match" = Option<String>, Header, description = "The ETag of an earlier answer"),
    ),
    responses(
        (status = 200, description = "The status", body = JobView),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "No such job", body = ErrorBody),
    )
)]
pub(in crate::http) async fn status(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
    headers: HeaderMap,
) -> HttpAnswer {
    let query = query(&uri, &["wait", "wait_for", "fields"])?;
    let wait = query.whole("wait", bounds::WAIT_S)?.unwrap_or(0);
    let awaited = awaited_change(query.text("wait_for"))?;
    let fields = query.text("fields");
    let output = if fields.is_none_or(|fields| fields.contains("std")) {
        WithOutput::Tails
    } else {
        WithOutput::Without
    };
    let known = |status: &FullJobStatus| none_match(&headers, &tag(status));
    let mut status = state.yard().status(&job, output).await?;
    let stale = headers.contains_key("if-none-match") && !known(&status);
    if wait > 0 && !stale && !status.state.is_terminal() {
        let change = state.yard().status_after_change(&job, output, awaited, Duration::from_secs(wait));
        // A long poll must not delay the stop of the server: the client then gets the status that was read before. Both branches
        // only wait, so cancelling one loses nothing.
        tokio::select! {
            changed = change => status = changed?,
            () = state.shutdown().cancelled() => {}
        }
    }
    let tag = tag(&status);
    if none_match(&headers, &tag) {
        return Ok(tagged(StatusCode::NOT_MODIFIED, &tag, Body::empty()));
    }
    let body = render(&status, fields)?;
    Ok(tagged(StatusCode::OK, &tag, Body::from(body)))
}

/// The same as `GET /status/{id}`.
#[utoipa::path(
    get, path = "/jobs/{id}", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("wait" = Option<u64>, Query, description = "Seconds to wait for what `wait_for` names, at most 300"),
        ("wait_for" = Option<String>, Query, description = "`change` (the next change of state, the default) or `end` (the end of the job)"),
        ("fields" = Option<String>, Query, description = "Only these members, separated by commas"),
    ),
    responses(
        (status = 200, description = "The status", body = JobView),
        (status = 404, description = "No such job", body = ErrorBody),
    )
)]
pub(in crate::http) async fn job(
    state: State<HttpState>,
    job: RouteJob,
    uri: Uri,
    headers: HeaderMap,
) -> HttpAnswer {
    status(state, job, uri, headers).await
}

fn awaited_change(name: Option<&str>) -> Result<AwaitedChange, HttpFailure> {
    match name {
        None | Some("change") => Ok(AwaitedChange::State),
        Some("end") => Ok(AwaitedChange::End),
        Some(_) => Err(ApiError::new(ErrorCode::BadRequest, "`wait_for` must be `change` or `end`").into()),
    }
}

/// The entity tag. What a job waits for is not in its row, so it does not raise the revision and is hashed here.
fn tag(status: &FullJobStatus) -> String {
    let Some(wait) = &status.waiting_for else { return format!("\"{}\"", status.revision) };
    let mut hasher = DefaultHasher::new();
    wait.to_string().hash(&mut hasher);
    format!("\"{}-{:x}\"", status.revision, hasher.finish())
}

fn tagged(status: StatusCode, tag: &str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(ETAG, tag);
    }
    response
}

fn render(status: &KnownStatus, fields: Option<&str>) -> Result<Bytes, HttpFailure> {
    if let (None, Some(rendered)) = (fields, status.rendered.get()) {
        return Ok(rendered.clone());
    }
    let view = views::job(status);
    match fields {
        None => {
            let body = serde_json::to_vec(&view).map_err(|error| AppError::internal(&error))?;
            Ok(status.rendered.get_or_init(|| body.into()).clone())
        }
        Some(fields) => {
            let whole = serde_json::to_value(&view).map_err(|error| AppError::internal(&error))?;
            let part =
                serde_json::to_vec(&part(whole, fields)?).map_err(|error| AppError::internal(&error))?;
            Ok(part.into())
        }
    }
}

/// Only the members that are named.
fn part(mut whole: Value, fields: &str) -> Result<Map<String, Value>, HttpFailure> {
    let names = fields.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| match whole.get_mut(name) {
            Some(value) => Ok((name.to_owned(), value.take())),
            None => {
                let shown: String = name.chars().take(64).collect();
                Err(ApiError::new(ErrorCode::BadRequest, format!("a status has no member `{shown}`")).into())
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_has_the_members_that_were_named() {
        let whole = json!({"state": "running", "stdout": "x", "error": null});
        let picked = part(whole.clone(), "state, error").unwrap();
        assert_eq!(Value::Object(picked), json!({"state": "running", "error": null}));
        assert!(part(whole, "state,nothing").is_err());
    }
}
