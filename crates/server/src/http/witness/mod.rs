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
use sha2::Digest;

use super::HttpState;
use super::failure::Failure;
use super::parts::job_segment;
use crate::app::AppError;
use crate::audit::{AnswerFacts, BodyFacts, CallEnd, CallOutcome, CallRecord, WrittenFacts, hex};
use crate::auth::Caller;
use crate::job::JobId;
use crate::yard::RecordedCall;
use actions::{Action, BodyOf, action};
use bodies::{Hashed, Streamed, Sum, read_first};

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
    action: Action,
    job: &JobId,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let began = Instant::now();
    let caller = request.extensions().get::<Caller>().cloned().unwrap_or_default();
    let (mut hashed, mut body) = (None, BodyFacts::default());
    match action.body {
        BodyOf::Nobody => {}
        BodyOf::Call => (request, body) = read_first(request).await,
        BodyOf::File => {
            let sum = Sum::default();
            hashed = Some(Arc::clone(&sum));
            request = request.map(|inner| Body::new(Hashed { inner, sum }));
        }
    }
    let call = CallRecord { call: action.call, body, caller: caller.facts() };
    let call = state.yard().record_call(job, call).await.map_err(AppError::from)?;
    let mut response = next.run(request).await;
    let Some(call) = call else { return Ok(response) };
    let mut facts = result(&mut response, began);
    if let Some(sum) = hashed {
        let (hasher, size) = sum.lock().unwrap_or_else(PoisonError::into_inner).clone();
        facts.written = Some(WrittenFacts { sha256: hex(&hasher.finalize()), size });
    }
    let end = End { ends: Some((call, facts)), changes: action.changes };
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

/// A handler puts a [`CallOutcome`] into the extensions of its response if it has one to record.
fn result(response: &mut Response, began: Instant) -> AnswerFacts {
    AnswerFacts {
        status: response.status().as_u16(),
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        error: response.extensions().get::<Failure>().map(|failure| failure.code()),
        outcome: response.extensions_mut().remove::<CallOutcome>(),
        written: None,
    }
}

/// Tells the result when it is dropped: after the answer, or after the last part of it.
struct End {
    ends: Option<(RecordedCall, AnswerFacts)>,
    changes: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        let Some((call, facts)) = self.ends.take() else { return };
        if self.changes {
            call.diff_workspace();
        }
        call.ended(CallEnd::Answered(facts));
    }
}

#[cfg(test)]
mod tests;
