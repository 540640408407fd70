//! `GET /jobs`, and actions on a whole job: cancel, reply, delete.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use sandyard_api::{
    ApiError, ErrorBody, ErrorCode, ExtendRequest, JobKind, JobListView, JobState, JobView, Query,
    ReplyRequest, bounds,
};

use crate::app;
use crate::http::HttpState;
use crate::http::request::body::RequestBody;
use crate::http::request::extract::{RouteCaller, RouteJob};
use crate::http::request::query::query;
use crate::http::response::failure::{HttpAnswer, HttpFailure};
use crate::http::response::views;

/// Jobs in a page, if the client does not say.
const DEFAULT_PAGE_JOBS: u64 = 50;

/// Jobs, newest first, without their output.
#[utoipa::path(
    get, path = "/jobs", tag = "jobs",
    params(
        ("status" = Option<String>, Query, description = "A status (`pending`, `running`, `complete`, `error`) or a state"),
        ("kind" = Option<String>, Query, description = "A kind"),
        ("limit" = Option<u64>, Query, description = "1 to 1000, 50 if not given"),
        ("cursor" = Option<String>, Query, description = "From the page before"),
    ),
    responses((status = 200, description = "A page", body = JobListView), (status = 400, body = ErrorBody))
)]
pub(in crate::http) async fn list(
    State(state): State<HttpState>,
    RouteCaller(caller): RouteCaller,
    uri: Uri,
) -> HttpAnswer {
    let query = query(&uri, &["status", "kind", "limit", "cursor"])?;
    let limit = query.whole("limit", bounds::LIST_LIMIT)?.unwrap_or(DEFAULT_PAGE_JOBS);
    let filter = filter(&query)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page = state.yard().list(&caller, &filter, limit, query.text("cursor")).await?;
    let jobs = page.jobs.into_iter().map(|job| views::job(&job)).collect();
    Ok(Json(JobListView { jobs, cursor: page.cursor }).into_response())
}

fn filter(query: &Query) -> Result<app::JobFilter, HttpFailure> {
    let states = query.text("status").map(states).transpose()?.unwrap_or_default();
    let kind = match query.text("kind").map(JobKind::parse).transpose() {
        Ok(kind) => kind,
        Err(error) => return Err(ApiError { code: ErrorCode::BadRequest, ..error }.into()),
    };
    Ok(app::JobFilter { states, kind })
}

fn states(name: &str) -> Result<Vec<JobState>, HttpFailure> {
    let matches = |state: &JobState| state.as_str() == name || status_name(*state) == name;
    let states: Vec<_> = JobState::ALL.into_iter().filter(matches).collect();
    if states.is_empty() {
        let error = ApiError::new(ErrorCode::BadRequest, "`status` names neither a status nor a state");
        return Err(error
            .with_hint("pending, running, complete, error, or a state such as timed_out")
            .into());
    }
    Ok(states)
}

fn status_name(state: JobState) -> &'static str {
    match state.status() {
        sandyard_api::JobStatus::Pending => "pending",
        sandyard_api::JobStatus::Running => "running",
        sandyard_api::JobStatus::Complete => "complete",
        sandyard_api::JobStatus::Error => "error",
    }
}

/// Ends a job, or the sandbox that is kept for an ended one; harmless otherwise. The result is kept.
#[utoipa::path(
    post, path = "/jobs/{id}/cancel", tag = "jobs",
    params(("id" = String, Path, description = "The job")),
    responses((status = 200, description = "The status", body = JobView), (status = 404, body = ErrorBody))
)]
pub(in crate::http) async fn cancel(State(state): State<HttpState>, RouteJob(job): RouteJob) -> HttpAnswer {
    let status = state.yard().cancel(&job).await?;
    Ok(Json(views::job(&status)).into_response())
}

/// Lets a job run for `timeout_s` seconds from now on; one that may run longer already keeps its time.
#[utoipa::path(
    post, path = "/jobs/{id}/extend", tag = "jobs",
    params(("id" = String, Path, description = "The job")),
    request_body = ExtendRequest,
    responses(
        (status = 200, description = "The status, with the new limit", body = JobView),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has ended", body = ErrorBody),
        (status = 422, description = "More than this server grants", body = ErrorBody),
    )
)]
pub(in crate::http) async fn extend(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    body: RequestBody,
) -> HttpAnswer {
    let (request, _room) = body.json(ExtendRequest::from_json).await?;
    let status = state.yard().extend(&job, request.timeout_s).await?;
    Ok(Json(views::job(&status)).into_response())
}

/// Answers a job that waits, or tells a running one something.
#[utoipa::path(
    post, path = "/jobs/{id}/reply", tag = "jobs",
    params(("id" = String, Path, description = "The job")),
    request_body = ReplyRequest,
    responses(
        (status = 204, description = "Passed on"),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job does not listen", body = ErrorBody),
        (status = 422, description = "Well-formed but not acceptable", body = ErrorBody),
    )
)]
pub(in crate::http) async fn reply(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    body: RequestBody,
) -> HttpAnswer {
    let (request, _room) = body.json(ReplyRequest::from_json).await?;
    state.yard().reply(&job, request.text, request.budget).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Cancels a job if needed, and removes its sandbox, workspace and result.
#[utoipa::path(
    delete, path = "/jobs/{id}", tag = "jobs",
    params(("id" = String, Path, description = "The job")),
    responses((status = 204, description = "Gone"), (status = 404, body = ErrorBody))
)]
pub(in crate::http) async fn remove(State(state): State<HttpState>, RouteJob(job): RouteJob) -> HttpAnswer {
    state.yard().delete(&job).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_stands_for_its_states() {
        assert_eq!(states("pending").unwrap(), [app::JobState::Queued, app::JobState::Starting]);
        assert_eq!(states("timed_out").unwrap(), [app::JobState::TimedOut]);
        assert!(states("done").is_err());
    }
}
