//! What every request passes on its way in and out: an id, the access rules, a log line, security headers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, UPGRADE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use sandyard_api::{ApiError, ErrorCode};

use super::failure::Failure;
use super::parts::{job_segment, port, query_pairs};
use super::proxy::notice::wants_page;
use super::proxy::origin;
use super::{HttpState, pages};
use crate::app::TicketPurpose;
use crate::auth::visits::is_foreign;
use crate::auth::{Caller, Need, Site, unauthorized};
use crate::job::JobId;

/// Routes that say the same to everybody.
const PUBLIC: [&str; 7] =
    ["/", "/docs", "/openapi.json", "/healthz", "/readyz", "/assets/page.css", "/favicon.ico"];

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A page that opens ours keeps no handle of it.
static OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
static RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Gives each request its id: a random part for the process, then a number.
#[derive(Debug)]
pub(super) struct RequestIds {
    process: u32,
    next: AtomicU64,
}

impl RequestIds {
    /// Ids that differ from those of other processes; without randomness they begin with zeros.
    pub(super) fn new() -> Self {
        let mut process = [0; 4];
        if getrandom::fill(&mut process).is_err() {
            tracing::warn!("no randomness for request ids");
        }
        Self { process: u32::from_be_bytes(process), next: AtomicU64::new(1) }
    }

    fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:08x}-{number:x}", self.process)
    }
}

/// The outermost layer.
pub(super) async fn pass(State(state): State<HttpState>, request: Request, next: Next) -> Response {
    let id = state.request_ids().next();
    let _in_flight = state.counters().begin();
    let started = Instant::now();
    let method = request.method().clone();
    // The query is left out: it may hold a ticket.
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!("request", id, job = tracing::field::Empty);
    if let Some(job) = job_segment(&path) {
        span.record("job", job);
    }
    let response = match state.access().site(request.headers()) {
        Site::Job(origin) => origin::serve(&state, origin, request).instrument(span.clone()).await,
        Site::Api => finish(api(&state, request, next).instrument(span.clone()).await, &id),
    };
    state.counters().count(response.status());
    let (status, micros) = (response.status().as_u16(), started.elapsed().as_micros());
    span.in_scope(|| tracing::debug!(%method, path, status, micros, "answered"));
    response
}

/// A request to the server itself.
async fn api(state: &HttpState, mut request: Request, next: Next) -> Response {
    match admit(state, &request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(super::body::with_idle_limit(request, state.limits().body_idle)).await
        }
        Err(failure) if failure.code() == "unauthorized" && opens_a_sandbox(&request) => pages::open(),
        Err(failure) => failure.into_response(),
    }
}

/// Whether a person followed a link to a sandbox, to whom a bare refusal would be of no use. What another site causes gets no
/// page that goes on by itself.
fn opens_a_sandbox(request: &Request) -> bool {
    let path = request.uri().path();
    let way = job_segment(path).and_then(|job| path.split_once(job)).map_or(path, |(_, rest)| rest);
    let known = matches!(way, "/lab" | "/desktop/")
        || way.strip_prefix("/ports/").is_some_and(|rest| port(rest).is_some());
    known
        && request.method() == Method::GET
        && wants_page(request.headers())
        && !is_foreign(request.headers())
}

fn admit(state: &HttpState, request: &Request) -> Result<Caller, Failure> {
    // An absolute address names a host of its own, beside the one in `Host`.
    if request.uri().authority().is_some() {
        return Err(
            ApiError::new(ErrorCode::BadRequest, "this server is no proxy for other addresses").into()
        );
    }
    let need = need(state, request)?;
    state.access().check(request.method(), request.headers(), need)?;
    Ok(state.access().caller(request.headers(), need))
}

/// A ticket is used up here, before anything else is looked at; a wrong one is refused even where no key is needed.
fn need(state: &HttpState, request: &Request) -> Result<Need, Failure> {
    let path = request.uri().path();
    if PUBLIC.contains(&path) || path.starts_with("/assets/") {
        return Ok(Need::Nothing);
    }
    if is_desktop_page(request.method(), path) {
        return Ok(Need::Nothing);
    }
    let Some((job, purpose, ticket)) = ticket_of(request.method(), request.uri(), request.headers()) else {
        return Ok(Need::Key);
    };
    if state.yard().redeem_ticket(&job, purpose, &ticket) {
        Ok(Need::HasTicket)
    } else {
        Err(unauthorized().into())
    }
}

/// The page of a desktop says the same for every job, known or not; its ticket is for the socket that it opens.
fn is_desktop_page(method: &Method, path: &str) -> bool {
    let route = path.strip_prefix("/jobs/").and_then(|rest| rest.split_once('/')).map(|(_, route)| route);
    method == Method::GET && matches!(route, Some("desktop" | "desktop/"))
}

fn ticket_of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<(JobId, TicketPurpose, String)> {
    let query = uri.query().filter(|query| query.contains("ticket="))?;
    let (_, ticket) = query_pairs(query).into_iter().find(|(name, _)| name == "ticket")?;
    let segment = job_segment(uri.path())?;
    let route = uri.path().strip_prefix("/jobs/")?.strip_prefix(segment)?;
    let purpose = match route {
        "/download" if method == Method::GET => TicketPurpose::Download,
        "/desktop/socket" if method == Method::GET && headers.contains_key(UPGRADE) => TicketPurpose::Desktop,
        "/shell" if method == Method::GET && headers.contains_key(UPGRADE) => TicketPurpose::Pty,
        "/lab" if method == Method::GET => TicketPurpose::Lab,
        _ if method == Method::GET => TicketPurpose::Port(route.strip_prefix("/ports/").and_then(port)?),
        _ => return None,
    };
    Some((JobId::parse(segment)?, purpose, ticket))
}

fn finish(mut response: Response<Body>, id: &str) -> Response {
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w16_a_ticket_is_looked_at_on_its_own_routes_only() {
        let id = "a".repeat(26);
        let purpose = |path: &str, headers: &HeaderMap| {
            let uri = format!("{path}?ticket=t").replace("ID", &id).parse().unwrap();
            ticket_of(&Method::GET, &uri, headers).map(|(_, purpose, _)| purpose)
        };
        let plain = HeaderMap::new();
        let upgrade = HeaderMap::from_iter([(UPGRADE, HeaderValue::from_static("websocket"))]);
        assert_eq!(purpose("/jobs/ID/download", &plain), Some(TicketPurpose::Download));
        assert_eq!(purpose("/jobs/ID/shell", &upgrade), Some(TicketPurpose::Pty));
        assert_eq!(purpose("/jobs/ID/desktop/socket", &upgrade), Some(TicketPurpose::Desktop));
        assert_eq!(purpose("/jobs/ID/lab", &plain), Some(TicketPurpose::Lab));
        assert_eq!(purpose("/jobs/ID/ports/5173", &plain), Some(TicketPurpose::Port(5173)));
        for path in [
            "/jobs/ID/shell",
            "/jobs/ID/desktop/",
            "/jobs/ID/desktop/socket",
            "/jobs/ID/files/download",
            "/jobs/ID/logs",
            "/status/ID",
            "/jobs/x/download",
            "/jobs/ID/ports/0",
            "/jobs/ID/ports/5173/",
            "/jobs/ID/proxy/5173/",
        ] {
            assert_eq!(purpose(path, &plain), None, "{path}");
        }
    }
}
