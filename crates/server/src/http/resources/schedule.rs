//! `POST /schedule` and `POST /submit`, and the request of a job.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use sandyard_api::{ApiError, ErrorBody, ErrorCode, GitBody, JobKind, JobStatus, ScheduleBody, ScheduleView};

use crate::app::{Floor, IdempotencyKey, ImageFlavour, InputFile, NewJob, TaskOptions};
use crate::http::HttpState;
use crate::http::request::body::{BodyType, RequestBody, WholeBody, parse_json};
use crate::http::request::extract::{RouteCaller, RouteJob};
use crate::http::request::idempotency::{fingerprint, idempotency_key};
use crate::http::response::failure::{HttpAnswer, HttpFailure};

/// Schedules a job: a task in plain words, a piece of code, or an open sandbox. Answers at once; the job is durable by then.
#[utoipa::path(
    post, path = "/schedule", tag = "jobs",
    request_body(content((ScheduleBody = "application/json"), (String = "text/plain")), description = "What to do"),
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same job")),
    responses(
        (status = 202, description = "Accepted", body = ScheduleView),
        (status = 400, description = "Not JSON", body = ErrorBody),
        (status = 409, description = "The key was used with another body", body = ErrorBody),
        (status = 413, description = "Larger than 16 MiB", body = ErrorBody),
        (status = 415, description = "Neither JSON nor plain text", body = ErrorBody),
        (status = 422, description = "Well-formed but not acceptable", body = ErrorBody),
        (status = 429, description = "The queue is too long", body = ErrorBody),
        (status = 503, description = "No capacity or no driver", body = ErrorBody),
    )
)]
pub(in crate::http) async fn schedule(
    State(state): State<HttpState>,
    RouteCaller(caller): RouteCaller,
    headers: HeaderMap,
    body: RequestBody,
) -> HttpAnswer {
    let kind = body.kind()?;
    let key = idempotency_key(&headers)?;
    let reader = body.reader();
    // The room is held until the job is stored.
    let WholeBody { bytes, room: _room } = body.whole(kind).await?;
    let (length, hashed) = (bytes.len(), key.is_some());
    let read = reader.work(length, move || -> Result<_, HttpFailure> {
        Ok((new_job(read(kind, &bytes)?)?, hashed.then(|| fingerprint(kind, &bytes))))
    });
    let (job, sha256) = read.await??;
    let key = key.zip(sha256).map(|(key, body_sha256)| IdempotencyKey { key, body_sha256 });
    let scheduled = state.yard().schedule(&caller, job, key).await?;
    tracing::Span::current().record("job", scheduled.id.as_str());
    tracing::info!(repeated = scheduled.repeated, "scheduled");
    let status = if scheduled.repeated { scheduled.state.status() } else { JobStatus::Pending };
    let view = ScheduleView::new(scheduled.id, status);
    Ok((StatusCode::ACCEPTED, Json(view)).into_response())
}

/// The request of a job as a body for `POST /schedule`, so that it can be sent again. Without the variables of the environment,
/// whose values may be secrets, and without files, which the workspace has.
#[utoipa::path(
    get, path = "/jobs/{id}/request", tag = "jobs",
    params(("id" = String, Path, description = "The job")),
    responses((status = 200, description = "The request", body = ScheduleBody), (status = 404, body = ErrorBody))
)]
pub(in crate::http) async fn request(State(state): State<HttpState>, RouteJob(job): RouteJob) -> HttpAnswer {
    Ok(Json(body_of(state.yard().request(&job).await?)).into_response())
}

/// The body that [`new_job`] would read the job from.
fn body_of(job: NewJob) -> ScheduleBody {
    let (is_task, is_session) = (job.kind == JobKind::Task, job.kind == JobKind::Session);
    let has_code = !is_task && !is_session;
    ScheduleBody {
        kind: (!is_task).then_some(job.kind),
        task: is_task.then(|| job.code.clone()),
        code: has_code.then_some(job.code),
        name: job.name,
        model: job.task.model,
        isolation: Some(job.isolation.as_text()),
        limits: Some(job.limits),
        budget: is_task.then_some(job.task.budget),
        egress: job.egress,
        keep: Some(job.keep),
        ask_timeout_s: job.task.ask_timeout_s,
        on_silence: is_task.then_some(job.task.on_silence),
        git: job.git.map(|git| GitBody { url: git.url, reference: git.reference }),
        flavour: job.flavour.map(|flavour| flavour.as_str().to_owned()),
        ..ScheduleBody::default()
    }
}

/// The same as `POST /schedule`.
#[utoipa::path(
    post, path = "/submit", tag = "jobs",
    request_body(content((ScheduleBody = "application/json"), (String = "text/plain")), description = "What to do"),
    responses((status = 202, description = "Accepted", body = ScheduleView))
)]
pub(in crate::http) async fn submit(
    state: State<HttpState>,
    caller: RouteCaller,
    headers: HeaderMap,
    body: RequestBody,
) -> HttpAnswer {
    schedule(state, caller, headers, body).await
}

fn read(kind: BodyType, bytes: &[u8]) -> Result<ScheduleBody, HttpFailure> {
    match kind {
        BodyType::Json => Ok(ScheduleBody::from_json(&parse_json(bytes)?)?),
        BodyType::Text => {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| ApiError::new(ErrorCode::BadRequest, "the body is not UTF-8"))?;
            Ok(ScheduleBody::from_text(text)?)
        }
    }
}

/// The job that a request asks for.
pub(in crate::http) fn new_job(request: ScheduleBody) -> Result<NewJob, ApiError> {
    let (kind, input) = request.work()?;
    let code = input.to_owned();
    let files = request.files.into_iter().map(|(path, body)| InputFile { path, bytes: body.into_bytes() });
    Ok(NewJob {
        kind,
        code,
        name: request.name,
        files: files.collect(),
        env: request.env,
        isolation: request.isolation.as_deref().map_or(Floor::Any, Floor::parse),
        limits: request.limits.unwrap_or_default(),
        keep: request.keep.unwrap_or(false),
        egress: request.egress,
        git: request.git.map(Into::into),
        task: TaskOptions {
            model: request.model,
            budget: request.budget.unwrap_or_default(),
            ask_timeout_s: request.ask_timeout_s,
            on_silence: request.on_silence.unwrap_or_default(),
        },
        flavour: request.flavour.as_deref().map(flavour).transpose()?,
    })
}

fn flavour(name: &str) -> Result<ImageFlavour, ApiError> {
    ImageFlavour::parse(name).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        ApiError::new(ErrorCode::UnsuitableFlavour, format!("there is no image flavour `{shown}`"))
            .with_hint(format!("known flavours: {}", ImageFlavour::ALL.map(ImageFlavour::as_str).join(", ")))
    })
}
