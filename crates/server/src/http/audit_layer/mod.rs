//! The audit of requests: the one place where calls of people and programs pass on their way to a job.
//!
//! The gate of a route calls it after it has admitted the caller to the job; calls of MCP's tools pass it too. `app` records
//! what is scheduled, cancelled, answered and deleted in the commit that does it. Everything else is recorded here: before
//! the handler runs, refused if it can't be recorded, and with its result when it is over.

pub(super) mod actions;
mod bodies;

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::Response;
use sha2::Digest;

use self::actions::{BodyRecord, RecordedAction};
use self::bodies::{BodyHash, HashedBody, read_first};
use super::HttpState;
use super::response::failure::HttpFailure;
use super::response::held_body::HeldBody;
use super::rules::AuditRule;
use crate::app::JobAccess;
use crate::audit::{AnswerFacts, BodyFacts, CallEnd, CallOutcome, WrittenFacts};
use crate::yard::RecordedCall;

/// Runs the handler, and records the call as the route says.
pub(super) async fn record(
    state: &HttpState,
    rule: AuditRule,
    job: &JobAccess,
    request: Request,
    next: Next,
) -> Result<Response, HttpFailure> {
    let action = match rule {
        AuditRule::Unrecorded(_) | AuditRule::InCommit => None,
        AuditRule::Recorded(action) => action(&request),
    };
    match action {
        Some(action) => run_recorded(state, action, job, request, next).await,
        None => Ok(next.run(request).await),
    }
}

async fn run_recorded(
    state: &HttpState,
    action: RecordedAction,
    job: &JobAccess,
    mut request: Request,
    next: Next,
) -> Result<Response, HttpFailure> {
    let began = Instant::now();
    let (mut hashed, mut body) = (None, BodyFacts::default());
    match action.body {
        BodyRecord::Ignored => {}
        BodyRecord::ReadFirst => (request, body) = read_first(state.bodies(), request).await?,
        BodyRecord::Hashed => {
            let hash = BodyHash::default();
            hashed = Some(Arc::clone(&hash));
            request = request.map(|inner| Body::new(HashedBody { inner, hash }));
        }
    }
    // Durable before the handler runs: a call without a record must not happen, even if the server dies during it.
    let call = state.yard().record_call(job, action.call, body).await?;
    let mut response = next.run(request).await;
    let Some(call) = call else { return Ok(response) };
    let mut facts = result(&mut response, began);
    if let Some(hash) = hashed {
        let (hasher, size) = hash.lock().clone();
        facts.written = Some(WrittenFacts { sha256: hex::encode(hasher.finalize()), size });
    }
    let end = ResultOnDrop { result: Some((call, facts)), changes: action.changes };
    // A streamed answer ends with its body, so its result is recorded then. Any other is complete here.
    let streams = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if streams {
        return Ok(response.map(|inner| HeldBody::body(inner, end)));
    }
    drop(end);
    Ok(response)
}

/// A handler puts a [`CallOutcome`] into the extensions of its response if it has one to record.
fn result(response: &mut Response, began: Instant) -> AnswerFacts {
    AnswerFacts {
        status: response.status().as_u16(),
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        error: response.extensions().get::<HttpFailure>().map(|failure| failure.code()),
        outcome: response.extensions_mut().remove::<CallOutcome>(),
        written: None,
    }
}

/// Records the result when it is dropped: after the answer, or after the last part of it.
struct ResultOnDrop {
    result: Option<(RecordedCall, AnswerFacts)>,
    changes: bool,
}

impl Drop for ResultOnDrop {
    fn drop(&mut self) {
        let Some((call, facts)) = self.result.take() else { return };
        if self.changes {
            call.diff_workspace();
        }
        call.ended(CallEnd::Answered(facts));
    }
}

#[cfg(test)]
mod tests;
