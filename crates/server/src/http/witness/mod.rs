//! The one place where what people do to a job passes on its way to the audit.
//!
//! A layer around the routes, so inside of `gate`, which says who it is, and around the calls of MCP's tools too. What is
//! scheduled, cancelled, told and deleted is recorded by `app` in the commit that does it; everything else here: noted
//! before the handler runs, refused if it can't be noted, and its result noted when it is over.

mod actions;
mod bodies;

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use sha2::Digest;

use super::HttpState;
use super::failure::Failure;
use super::parts::job_segment;
use crate::app::AppError;
use crate::auth::Caller;
use crate::job::JobId;
use crate::yard::RecordedCall;
use actions::{Action, BodyOf, action};
use bodies::{Hashed, Streamed, Sum, read_first};

/// What a handler wants to be recorded of its result.
#[derive(Debug, Clone)]
pub(super) struct Outcome(pub(super) Value);

/// The layer.
pub(super) async fn record(State(state): State<HttpState>, request: Request, next: Next) -> Response {
    let action = request.extensions().get::<MatchedPath>().and_then(|path| action(&request, path.as_str()));
    let job = job_segment(request.uri().path()).and_then(JobId::parse);
    let (Some(action), Some(job)) = (action, job) else { return next.run(request).await };
    match witnessed(&state, action, &job, request, next).await {
        Ok(response) => response,
        Err(failure) => failure.into_response(),
    }
}

async fn witnessed(
    state: &HttpState,
    mut action: Action,
    job: &JobId,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let began = Instant::now();
    let caller = request.extensions().get::<Caller>().cloned().unwrap_or_default();
    let mut hashed = None;
    match action.body {
        BodyOf::Nobody => {}
        BodyOf::Call => request = read_first(request, &mut action.facts).await,
        BodyOf::File => {
            let sum = Sum::default();
            hashed = Some(Arc::clone(&sum));
            request = request.map(|inner| Body::new(Hashed { inner, sum }));
        }
    }
    caller.describe(&mut action.facts);
    let call = state.yard().record_call(job, action.kind, action.facts).await.map_err(AppError::from)?;
    let mut response = next.run(request).await;
    let Some(call) = call else { return Ok(response) };
    let mut facts = result(&mut response, began);
    if let (Some(sum), Some(facts)) = (hashed, facts.as_object_mut()) {
        let (hasher, size) = sum.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sha256: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        facts.extend([("sha256".to_owned(), json!(sha256)), ("size".to_owned(), json!(size))]);
    }
    let end = End { call: Some(call), facts, changes: action.changes };
    let streams = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if streams {
        return Ok(response.map(|inner| Body::new(Streamed { inner, _until_end: end })));
    }
    drop(end);
    Ok(response)
}

fn result(response: &mut Response, began: Instant) -> Value {
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut facts = json!({ "status": response.status().as_u16(), "took_ms": took_ms });
    let error = response.extensions().get::<Failure>().map(|failure| failure.code());
    let outcome = response.extensions_mut().remove::<Outcome>();
    if let Some(facts) = facts.as_object_mut() {
        facts.extend(error.map(|code| ("error".to_owned(), json!(code))));
        facts.extend(outcome.map(|outcome| ("outcome".to_owned(), outcome.0)));
    }
    facts
}

/// Tells the result when it is dropped: after the answer, or after the last part of it.
struct End {
    call: Option<RecordedCall>,
    facts: Value,
    changes: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        if self.changes {
            call.look();
        }
        call.ended(self.facts.take());
    }
}

#[cfg(test)]
mod tests;
