//! The output of something that runs in a sandbox: collected into one answer, or streamed as server-sent events.

use std::convert::Infallible;

use axum::Json;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use sandyard_sandbox::machine::MachineError;
use serde::Serialize;

use super::failure::{HttpAnswer, HttpFailure};
use crate::audit::CallOutcome;
use crate::http::request::conditions::wants_events;

/// A command or a piece of code that runs.
pub(in crate::http) trait LiveOutput: Send + 'static {
    /// One event of the stream.
    type Event: Serialize + Send + 'static;
    /// The answer for a client that does not stream: all output and the end.
    type View: Serialize;

    /// The next event. It is not called again after the last one.
    fn next_event(&mut self) -> impl Future<Output = Self::Event> + Send;

    /// The SSE field `id` of the event that was returned last, if a client can resume after it.
    fn position(&self) -> Option<String> {
        None
    }

    /// The name of an event.
    fn name(event: &Self::Event) -> &'static str;

    /// True if nothing comes after an event.
    fn is_last(event: &Self::Event) -> bool;

    /// Reads to the end.
    fn collect(self) -> impl Future<Output = Result<Self::View, HttpFailure>> + Send;

    /// Returns the facts about the end that the audit records.
    fn outcome(view: &Self::View) -> CallOutcome;
}

/// Streams to a client that asked for events, else answers at the end.
pub(in crate::http) async fn stream_or_collect<L: LiveOutput>(
    headers: &HeaderMap,
    first: Option<L::Event>,
    live: L,
) -> HttpAnswer {
    if wants_events(headers) {
        return Ok(events(first, live));
    }
    let view = live.collect().await?;
    let outcome = L::outcome(&view);
    let mut response = Json(view).into_response();
    response.extensions_mut().insert(outcome);
    Ok(response)
}

fn events<L: LiveOutput>(first: Option<L::Event>, live: L) -> Response {
    let events = stream::unfold((first, Some(live)), |(first, live)| async move {
        if let Some(first) = first {
            return Some((encode::<L>(&first, None), (None, live)));
        }
        let mut live = live?;
        let event = live.next_event().await;
        let position = live.position();
        // Dropped as soon as its last event is known: the stream to the sandbox is not needed any more.
        let rest = (!L::is_last(&event)).then_some(live);
        Some((encode::<L>(&event, position), (None, rest)))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

fn encode<L: LiveOutput>(event: &L::Event, position: Option<String>) -> Result<Event, Infallible> {
    let data = serde_json::to_string(event).unwrap_or_default();
    let encoded = Event::default().event(L::name(event)).data(data);
    Ok(match position {
        Some(position) => encoded.id(position),
        None => encoded,
    })
}

/// The code and message of a failure within a stream, whose status line is long gone.
pub(in crate::http) fn failure_words(error: MachineError) -> (String, String) {
    let failure = HttpFailure::from(error);
    (failure.code().to_owned(), failure.message().to_owned())
}
