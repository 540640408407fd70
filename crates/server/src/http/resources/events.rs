//! `GET /jobs/{id}/events`: the events of a job, as they are committed.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::StreamExt;
use futures_util::stream::{self, Peekable};
use sandyard_api::{ApiError, ErrorBody, ErrorCode, JobEvent as JobEventView, JobState, Query, Timestamp};
use serde_json::Value;

use crate::app::{AppError, CommittedEvent, JobEventStream};
use crate::http::HttpState;
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::{HttpAnswer, HttpFailure};

/// Delay between two comments, which tell proxies and clients that the stream lives.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How long a client waits before it connects again, if it is a browser's `EventSource`.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Server-sent events, resumed after `Last-Event-ID`; closes after the terminal state. A client that has seen that already gets 204,
/// which tells an `EventSource` to stop.
#[utoipa::path(
    get, path = "/jobs/{id}/events", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("after" = Option<u64>, Query, description = "Only events after this id"),
        ("tail" = Option<u64>, Query, description = "Only this many of the events that there are, and what follows"),
        ("limit" = Option<u64>, Query, description = "Close after this many events"),
        ("wait" = Option<u8>, Query, description = "0: close after the events that there are"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The same, as browsers send it"),
    ),
    responses(
        (status = 200, description = "Events", body = JobEventView, content_type = "text/event-stream"),
        (status = 204, description = "The job has ended and nothing came after that id"),
        (status = 404, body = ErrorBody),
    )
)]
pub(in crate::http) async fn follow(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
    headers: HeaderMap,
) -> HttpAnswer {
    let query = query(&uri, &["after", "tail", "limit", "wait"])?;
    let newest = state.yard().newest_event(&job).await?;
    let after = after(&query, &headers)?.max(match query.whole("tail", 0..=u64::MAX)? {
        Some(tail) => newest.saturating_sub(tail),
        None => 0,
    });
    let mut limit = query.whole("limit", 0..=u64::MAX)?.unwrap_or(u64::MAX);
    if query.text("wait").is_some() && !query.switch("wait")? {
        // Ids have no gap, so the number of events that there are is known.
        limit = limit.min(newest.saturating_sub(after));
    }
    let mut events = Box::pin(state.yard().events(&job, after).await?.peekable());
    if limit == 0 || (after > 0 && has_ended(&mut events).await) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let stop = state.shutdown().clone();
    let events = events.take(usize::try_from(limit).unwrap_or(usize::MAX));
    let lines = events.take_until(stop.cancelled_owned()).map(encode);
    // A server that stops, or a store that fails, ends the stream without a terminal state: the client comes back.
    let lines = stream::iter([Ok(Event::default().retry(RETRY_DELAY))]).chain(lines);
    Ok(Sse::new(lines).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)).into_response())
}

/// True if the stream ends before its first event. The stream of a live job is merely not ready.
async fn has_ended(events: &mut std::pin::Pin<Box<Peekable<JobEventStream>>>) -> bool {
    let first = tokio::time::timeout(Duration::from_millis(50), events.as_mut().peek()).await;
    matches!(first, Ok(None))
}

fn after(query: &Query, headers: &HeaderMap) -> Result<u64, HttpFailure> {
    let asked = query.whole("after", 0..=u64::MAX)?;
    let seen = headers.get("last-event-id").filter(|value| !value.is_empty());
    let seen = seen.map(|value| value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok()));
    match seen {
        Some(Some(id)) => Ok(id),
        Some(None) => {
            Err(ApiError::new(ErrorCode::BadRequest, "Last-Event-ID must be a whole number").into())
        }
        None => Ok(asked.unwrap_or(0)),
    }
}

/// Encodes one event. A failure becomes a comment, because the status line is long gone.
fn encode(event: Result<CommittedEvent, AppError>) -> Result<Event, Infallible> {
    let event = match event {
        Ok(event) => event,
        Err(error) => return Ok(Event::default().comment(error.code.as_str())),
    };
    let mut data = match event.data {
        Value::Object(members) => members,
        other => [("value".to_owned(), other)].into_iter().collect(),
    };
    let state = data.get("state").and_then(Value::as_str).and_then(JobState::parse);
    if let Some(state) = state.filter(|_| event.kind == "state") {
        data.insert("status".to_owned(), serde_json::to_value(state.status()).unwrap_or_default());
    }
    data.insert("at".to_owned(), Timestamp::from_unix_ms(event.at_ms).to_text().into());
    data.insert("type".to_owned(), event.kind.clone().into());
    // JSON text has no line breaks, which is what `data` must not have.
    let line = Value::Object(data).to_string();
    Ok(Event::default().id(event.id.to_string()).event(event.kind).data(line))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn an_event_is_three_lines_whatever_it_says() {
        let data = json!({"offset": 3, "length": 17, "text": "a\nid: 9\n\ndata: x\r"});
        let event = CommittedEvent { id: 7, kind: "stdout".into(), at_ms: 0, data };
        let stream = stream::iter([encode(Ok(event))]);
        let body = Sse::new(stream).into_response().into_body();
        let bytes = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let lines: Vec<&str> = text.trim_end().lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines.contains(&"id: 7") && lines.contains(&"event: stdout"), "{text}");
        let data = lines.iter().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let view: JobEventView = serde_json::from_str(data).unwrap();
        assert_eq!(view.body.name(), "stdout");
    }

    #[test]
    fn the_last_id_wins_over_the_query() {
        let query = Query::read(vec![("after".into(), "3".into())], &["after"]).unwrap();
        let seen = |text: &'static str| {
            HeaderMap::from_iter([("last-event-id".parse().unwrap(), HeaderValue::from_static(text))])
        };
        assert_eq!(after(&query, &HeaderMap::new()).unwrap(), 3);
        assert_eq!(after(&query, &seen("9")).unwrap(), 9);
        assert!(after(&query, &seen("x")).is_err());
    }
}
