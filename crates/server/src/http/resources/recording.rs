//! `GET /jobs/{id}/frames`, its pictures, `…/usage` and `…/terminal.cast`: a job as it went, to be looked at again.

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Json};
use sandyard_api::{ErrorBody, FrameView, FramesView, Timestamp, UsageSampleView, UsageSeriesView};

use crate::app::{AppError, ErrorCode};
use crate::http::HttpState;
use crate::http::request::extract::{PathName, RouteJob};
use crate::http::request::query::query;
use crate::http::response::failure::HttpAnswer;

/// The moments of the recorded desktop: each looks as its picture shows until the next one. At most 1,000 in an answer; the next
/// ones are `after` its `next`.
#[utoipa::path(
    get, path = "/jobs/{id}/frames", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("from" = Option<u64>, Query, description = "Not before this time, in milliseconds since 1970"),
        ("to" = Option<u64>, Query, description = "Not after this time, in milliseconds since 1970"),
        ("after" = Option<u64>, Query, description = "Only moments after this event"),
    ),
    responses(
        (status = 200, description = "The moments, oldest first", body = FramesView),
        (status = 404, description = "No such job", body = ErrorBody),
    )
)]
pub(in crate::http) async fn frames(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    let query = query(&uri, &["from", "to", "after"])?;
    let time = |name: &str, absent: i64| {
        let asked = query.whole(name, 0..=u64::MAX)?;
        Ok::<_, sandyard_api::ApiError>(asked.map_or(absent, |ms| i64::try_from(ms).unwrap_or(i64::MAX)))
    };
    let (from_ms, to_ms) = (time("from", i64::MIN)?, time("to", i64::MAX)?);
    let after = query.whole("after", 0..=u64::MAX)?.unwrap_or(0);
    let page = state.yard().recorded_moments(&job, after, (from_ms, to_ms)).await?;
    let frame = |moment: &crate::app::RecordedMoment| FrameView {
        event: moment.event,
        at: Timestamp::from_unix_ms(moment.at_ms),
        picture: moment.frame.picture,
        width: moment.frame.width,
        height: moment.frame.height,
    };
    Ok(Json(FramesView { frames: page.moments.iter().map(frame).collect(), next: page.next }).into_response())
}

/// A picture of the recorded desktop.
#[utoipa::path(
    get, path = "/jobs/{id}/frames/{picture}", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("picture" = u64, Path, description = "The number that a moment names"),
    ),
    responses(
        (status = 200, description = "The picture", body = Vec<u8>, content_type = "image/png"),
        (status = 404, description = "No such job, or no such picture", body = ErrorBody),
    )
)]
pub(in crate::http) async fn picture(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    PathName(picture): PathName,
) -> HttpAnswer {
    let number = picture
        .parse()
        .map_err(|_| AppError::new(ErrorCode::NoScreenshot, "pictures of a recording have numbers"))?;
    let png = state.yard().recorded_picture(&job, number).await?;
    // A picture never changes under its number.
    let headers = [(CONTENT_TYPE, "image/png"), (CACHE_CONTROL, "private, max-age=31536000, immutable")];
    Ok((headers, png).into_response())
}

/// What the job used over time: a series that is coarser the longer the job runs, without samples of its rests.
#[utoipa::path(
    get, path = "/jobs/{id}/usage", tag = "jobs",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The samples, oldest first", body = UsageSeriesView),
        (status = 404, description = "No such job", body = ErrorBody),
    )
)]
pub(in crate::http) async fn usage(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    query(&uri, &[])?;
    let series = state.yard().usage_series(&job).await?;
    let sample = |(at_ms, used)| UsageSampleView { at: Timestamp::from_unix_ms(at_ms), used };
    Ok(Json(UsageSeriesView { samples: series.into_iter().map(sample).collect() }).into_response())
}

/// What the job printed, and the commands of a task, with their times: an asciicast (version 2) for players of terminals, with at
/// most 16 MiB of output. Terminals that people open (`GET /jobs/{id}/shell`) are not in it: the sandbox keeps the last 4 MiB of
/// each without times, and `GET /jobs/{id}/processes/{process}` shows them while it lives.
#[utoipa::path(
    get, path = "/jobs/{id}/terminal.cast", tag = "jobs",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The recording", body = String, content_type = "application/x-asciicast"),
        (status = 404, description = "No such job", body = ErrorBody),
    )
)]
pub(in crate::http) async fn terminal(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    query(&uri, &[])?;
    let cast = state.yard().terminal_cast(&job).await?;
    let name = format!("attachment; filename=\"{}.cast\"", job.id());
    let headers = [(CONTENT_TYPE, "application/x-asciicast".to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, Body::from_stream(cast)).into_response())
}
