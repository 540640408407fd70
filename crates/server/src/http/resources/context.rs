//! `GET /jobs/{id}/context`: what the model read for an answer, and why.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use sandyard_api::{ApiError, ContextPartView, ContextView, ErrorBody, ErrorCode, Timestamp};
use sandyard_protocol::ContextPart;

use crate::app::ModelContext;
use crate::http::HttpState;
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::HttpAnswer;

/// What the model of a task read for its answer at a journal entry, or for the next one behind it: which entries it saw whole, for
/// which a line or a summary stood, and what was recalled.
#[utoipa::path(
    get, path = "/jobs/{id}/context", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("step" = u64, Query, description = "Number of a journal entry, as events and citations name it"),
    ),
    responses(
        (status = 200, description = "The parts, in the order in which the model read them", body = ContextView),
        (status = 400, body = ErrorBody),
        (status = 404, description = "No such job, or no answer at or behind that entry", body = ErrorBody),
    )
)]
pub(in crate::http) async fn show(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    let query = query(&uri, &["step"])?;
    let step = query.whole("step", 1..=u64::MAX)?;
    let step = step.ok_or_else(|| ApiError::new(ErrorCode::BadRequest, "`step` is missing"))?;
    let context = state.yard().model_context(&job, step).await?.ok_or_else(|| {
        ApiError::new(ErrorCode::NoContext, "the model has not answered at or behind this entry")
            .with_hint("the events of kind `model` name the entries of answers")
    })?;
    Ok(Json(view(context)).into_response())
}

fn view(context: ModelContext) -> ContextView {
    let ModelContext { entry, model, at_ms, usage, parts } = context;
    ContextView {
        entry,
        model,
        at: Timestamp::from_unix_ms(at_ms),
        tokens_in: usage.input,
        tokens_cached: usage.cached,
        packed: !parts.is_empty(),
        parts: parts.into_iter().map(part).collect(),
    }
}

fn part(part: ContextPart) -> ContextPartView {
    let ContextPart { first, last, reason, tokens, replaced_by } = part;
    ContextPartView { first, last, reason, tokens, text: replaced_by }
}
