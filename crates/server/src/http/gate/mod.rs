//! The gate, which every request passes on its way in and out.
//!
//! [`Gate::pass`] is around everything: it gives the request an id, sorts it to the API or to a job's origin, logs it, and writes
//! failures and security headers. `guard` is around each route and enforces the rules of its row.

mod guard;

use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use tower::Service;
use tracing::Instrument;

use super::HttpState;
use super::proxy::origin;
use super::request::extract::job_segment;
use super::request::idle::with_idle_limit;
use super::response::failure::HttpFailure;
use crate::auth::Site;
pub(super) use guard::{InProcessCaller, admit, check, guard};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A page that opens one of ours gets no handle of its window.
static OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
static RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The service of all requests: every route behind the gate.
#[derive(Clone)]
pub(super) struct Gate {
    state: HttpState,
    api: Router,
}

impl Gate {
    /// The gate of these routes.
    pub(super) fn new(state: HttpState, api: Router) -> Self {
        Self { state, api }
    }

    /// The state that the gate shares with its routes.
    pub(super) fn state(&self) -> &HttpState {
        &self.state
    }

    /// Refuses a request before it is sorted.
    pub(super) fn refuse(&self, failure: HttpFailure) -> Response {
        self.state.counters().count(failure.status());
        finish(failure.into_response(), &self.state.request_ids().next())
    }

    /// Answers one request.
    pub(super) async fn pass(self, request: Request) -> Response {
        let Self { state, mut api } = self;
        let id = state.request_ids().next();
        let _in_flight = state.counters().begin();
        let started = Instant::now();
        let asked = AskedFor::of(&request);
        let span = tracing::info_span!("request", id, job = job_segment(request.uri().path()));
        let response = match state.access().site(request.headers()) {
            Site::Job(origin) => origin::serve(&state, origin, request).instrument(span.clone()).await,
            Site::Api => {
                let request = with_idle_limit(request, state.limits().body_idle);
                // A router is always ready and does not fail.
                let Ok(response) = api.call(request).instrument(span.clone()).await;
                finish(response, &id)
            }
        };
        state.counters().count(response.status());
        if let Some(AskedFor { method, path }) = asked {
            let (status, micros) = (response.status().as_u16(), started.elapsed().as_micros());
            span.in_scope(|| tracing::debug!(%method, path, status, micros, "answered"));
        }
        response
    }
}

/// The words of a request for the log. The query is left out: it may hold a ticket.
struct AskedFor {
    method: Method,
    path: String,
}

impl AskedFor {
    /// `None` if the log takes no such line: copying the words would cost every request.
    fn of(request: &Request) -> Option<Self> {
        let words = || Self { method: request.method().clone(), path: request.uri().path().to_owned() };
        tracing::enabled!(tracing::Level::DEBUG).then(words)
    }
}

fn finish(mut response: Response<Body>, id: &str) -> Response {
    if let Some(failure) = response.extensions_mut().remove::<HttpFailure>() {
        response = failure.render(id, response.headers());
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID.clone(), value);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY.clone(), HeaderValue::from_static("same-origin"));
    headers.insert(OPENER_POLICY.clone(), HeaderValue::from_static("same-origin"));
    headers
        .entry(CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
