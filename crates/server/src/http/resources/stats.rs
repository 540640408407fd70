//! `GET /jobs/{id}/stats`: what a sandbox uses, as it changes.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{StreamExt, stream};
use sandyard_api::{ErrorBody, SandboxState, StatsView};

use crate::app::{AppError, JobAccess, JobMeasure};
use crate::http::HttpState;
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::HttpAnswer;
use crate::http::response::views;

/// Seconds between two measurements.
const INTERVAL_S: std::ops::RangeInclusive<u64> = 1..=60;
/// Measurements of one stream, if the client does not say: until the sandbox is gone.
const WITHOUT_END: u64 = u64::MAX;

/// Server-sent events with what a live sandbox uses: processors, memory, network, tokens, and the time that is left. Closes when
/// the sandbox is gone.
#[utoipa::path(
    get, path = "/jobs/{id}/stats", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("interval" = Option<u64>, Query, description = "Seconds between two measurements, 1 to 60; 1 if not given"),
        ("limit" = Option<u64>, Query, description = "Close after this many measurements"),
    ),
    responses(
        (status = 200, description = "Measurements", body = StatsView, content_type = "text/event-stream"),
        (status = 404, body = ErrorBody),
    )
)]
pub(in crate::http) async fn follow(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    let query = query(&uri, &["interval", "limit"])?;
    let interval = Duration::from_secs(query.whole("interval", INTERVAL_S)?.unwrap_or(1));
    let limit = query.whole("limit", 1..=u64::MAX)?.unwrap_or(WITHOUT_END);
    let stop = state.shutdown().clone();
    // The first one decides about the status line: a job that is gone is not found.
    let first = state.yard().measure(&job).await?;
    let start = StatsCursor { state, job, interval, left: limit, earlier: None, next: Some(first) };
    let events = stream::unfold(start, |mut cursor| async move {
        let event = cursor.next().await?;
        Some((event, cursor))
    });
    let events = events.take_until(stop.cancelled_owned());
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

struct StatsCursor {
    state: HttpState,
    job: JobAccess,
    interval: Duration,
    left: u64,
    earlier: Option<JobMeasure>,
    /// The first measurement, until it is sent.
    next: Option<JobMeasure>,
}

impl StatsCursor {
    /// Returns the next event; `None` after the one that says that the sandbox is gone.
    async fn next(&mut self) -> Option<Result<Event, Infallible>> {
        let over = self.earlier.as_ref().is_some_and(is_last);
        self.left = self.left.checked_sub(1).filter(|_| !over)?;
        let measure = match self.next.take() {
            Some(first) => first,
            None => {
                tokio::time::sleep(self.interval).await;
                match self.measure().await {
                    Ok(measure) => measure,
                    // The status line is long gone; a client comes back, and learns why then.
                    Err(_) => return None,
                }
            }
        };
        let view = views::stats(&measure, self.earlier.as_ref());
        self.earlier = Some(measure);
        let data = serde_json::to_string(&view).ok()?;
        Some(Ok(Event::default().event("stats").data(data)))
    }

    async fn measure(&self) -> Result<JobMeasure, AppError> {
        self.state.yard().measure(&self.job).await
    }
}

fn is_last(measure: &JobMeasure) -> bool {
    let over = measure.state.is_terminal() && measure.sandbox != SandboxState::Live;
    over || measure.sandbox == SandboxState::Gone
}
