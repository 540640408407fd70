//! The one place where what people do to a job passes on its way to the audit.
//!
//! A layer around the routes, so inside of `gate`, which says who it is, and around the calls of MCP's tools too. What is
//! scheduled, cancelled, told and deleted is recorded by `app` in the commit that does it; everything else here: noted
//! before the handler runs, refused if it can't be noted, and its result noted when it is over.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, UPGRADE};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use sandyard_api::bounds;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::HttpState;
use super::failure::Failure;
use super::parts::{job_segment, query_pairs};
use crate::app::AppError;
use crate::audit::{Kind, cut, digest};
use crate::auth::Caller;
use crate::job_id::JobId;
use crate::witness::Call;

/// Of a path or a name that a caller chose.
const TEXT_BYTES: usize = 500;

/// What a handler wants to be recorded of its result.
#[derive(Debug, Clone)]
pub(super) struct Outcome(pub(super) Value);

/// What is done with a body on its way in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyOf {
    /// There is none, or it is the program's on a port.
    Nobody,
    /// It is read first, so that its hash is in the record.
    Call,
    /// It is hashed as it passes.
    File,
}

/// Something that is recorded.
struct Action {
    kind: Kind,
    facts: Value,
    body: BodyOf,
    /// Whether files may be others afterwards.
    changes: bool,
}

impl Action {
    fn new(kind: Kind, facts: Value) -> Self {
        Self { kind, facts, body: BodyOf::Nobody, changes: false }
    }

    fn call(kind: Kind) -> Self {
        Self { kind, facts: json!({}), body: BodyOf::Call, changes: true }
    }

    fn open(what: &str) -> Self {
        Self::new(Kind::Open, json!({ "what": what }))
    }
}

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
            let sum = Arc::new(Mutex::new((Sha256::new(), 0)));
            hashed = Some(Arc::clone(&sum));
            request = request.map(|inner| Body::new(Hashed { inner, sum }));
        }
    }
    caller.describe(&mut action.facts);
    let call = state.yard().witness(job, action.kind, action.facts).await.map_err(AppError::from)?;
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
        return Ok(response.map(|inner| Body::new(Streamed { inner, _end: end })));
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
    call: Option<Call>,
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

/// What a request does, if it is recorded here.
fn action(request: &Request, route: &str) -> Option<Action> {
    let (method, uri) = (request.method(), request.uri());
    let route = route.strip_prefix("/jobs/{id}/")?;
    let get = matches!(*method, Method::GET | Method::HEAD);
    Some(match route {
        "tickets" => Action { changes: false, ..Action::call(Kind::Ticket) },
        "download" => Action::new(Kind::Download, json!({})),
        "shell" if get && request.headers().contains_key(UPGRADE) => Action::open("terminal"),
        "shell" if !get => Action::call(Kind::Shell),
        "code" => Action::call(Kind::Code),
        "gui" => Action::call(Kind::Gui),
        "screenshot.png" => Action::new(Kind::Gui, json!({ "what": "screenshot" })),
        "desktop/socket" => {
            let control =
                query_pairs(uri.query().unwrap_or_default()).contains(&("control".into(), "1".into()));
            Action::new(Kind::Open, json!({ "what": "desktop", "control": control }))
        }
        "lab" => Action::open("lab"),
        "ports/{port}" | "proxy/{port}" | "proxy/{port}/" | "proxy/{port}/{*path}" => port(method, uri),
        _ if route.starts_with("kernels") && !get => {
            let tail = uri.path().splitn(5, '/').nth(4).unwrap_or_default();
            let facts = json!({ "method": method.as_str(), "kernel": cut(tail, TEXT_BYTES) });
            Action { kind: Kind::Kernel, facts, body: BodyOf::Call, changes: false }
        }
        _ if route.starts_with("files") => file(method, uri),
        _ => return None,
    })
}

fn port(method: &Method, uri: &Uri) -> Action {
    // Without the query, which may hold a ticket or somebody's secret.
    let way = uri.path().splitn(4, '/').nth(3).unwrap_or_default();
    Action::new(Kind::Open, json!({ "what": cut(way, TEXT_BYTES), "method": method.as_str() }))
}

fn file(method: &Method, uri: &Uri) -> Action {
    let path = uri.path().splitn(5, '/').nth(4).unwrap_or_default();
    let asked = |name: &str| uri.query().is_some_and(|query| query.contains(name));
    let (operation, body) = match *method {
        Method::PUT => ("write", BodyOf::File),
        Method::PATCH => ("change", BodyOf::Call),
        Method::DELETE => ("remove", BodyOf::Nobody),
        _ if asked("stat=") => ("stat", BodyOf::Nobody),
        _ if asked("search=") => ("search", BodyOf::Nobody),
        _ if asked("archive=") => ("archive", BodyOf::Nobody),
        _ => ("read", BodyOf::Nobody),
    };
    let changes = matches!(operation, "write" | "change" | "remove");
    let facts = json!({ "operation": operation, "path": cut(path, TEXT_BYTES) });
    Action { kind: Kind::File, facts, body, changes }
}

/// Reads a body for its hash and puts it back. One that is too long or breaks off is left to the handler to refuse.
async fn read_first(request: Request, facts: &mut Value) -> Request {
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > bounds::BODY_BYTES) {
        return request;
    }
    let (parts, mut body) = request.into_parts();
    let mut bytes = BytesMut::with_capacity(announced.unwrap_or(0));
    let rest = loop {
        match body.frame().await {
            None => break None,
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            Some(Err(error)) => break Some(StreamExt::boxed(stream::once(async { Err::<Bytes, _>(error) }))),
        }
        if bytes.len() > bounds::BODY_BYTES {
            break Some(StreamExt::boxed(body.into_data_stream()));
        }
    };
    let bytes = bytes.freeze();
    describe_call(&bytes, rest.is_none(), facts);
    let body = match rest {
        None => Body::from(bytes),
        Some(rest) => Body::from_stream(stream::once(async { Ok(bytes) }).chain(rest)),
    };
    Request::from_parts(parts, body)
}

/// The hash of a call, and of its members those that say what kind of call it is.
fn describe_call(bytes: &[u8], whole: bool, facts: &mut Value) {
    let Some(facts) = facts.as_object_mut() else { return };
    facts.insert("bytes".to_owned(), json!(bytes.len()));
    if whole {
        facts.insert("sha256".to_owned(), json!(digest(bytes)));
    }
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    for name in ["language", "kernel", "for"] {
        if let Some(text) = body.get(name).and_then(Value::as_str) {
            facts.insert(name.to_owned(), json!(cut(text, 64)));
        }
    }
}

/// A body that is hashed as it passes.
struct Hashed {
    inner: Body,
    sum: Arc<Mutex<(Sha256, u64)>>,
}

impl HttpBody for Hashed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
            sum.0.update(data);
            sum.1 += data.len() as u64;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// An answer whose end is told.
struct Streamed {
    inner: Body,
    _end: End,
}

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acted(method: Method, uri: &str, route: &str) -> Option<(&'static str, Value)> {
        let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
        action(&request, route).map(|action| (action.kind.as_str(), action.facts))
    }

    #[test]
    fn what_people_do_is_told_apart_and_what_they_watch_is_not_recorded() {
        let files = "/jobs/{id}/files/{*path}";
        assert_eq!(
            acted(Method::GET, "/jobs/x/files/a/b?stat=1", files),
            Some(("file", json!({ "operation": "stat", "path": "a/b" })))
        );
        assert_eq!(
            acted(Method::DELETE, "/jobs/x/files/a", files),
            Some(("file", json!({ "operation": "remove", "path": "a" })))
        );
        assert_eq!(
            acted(Method::GET, "/jobs/x/desktop/socket?ticket=t&control=1", "/jobs/{id}/desktop/socket"),
            Some(("open", json!({ "what": "desktop", "control": true })))
        );
        assert_eq!(
            acted(Method::GET, "/jobs/x/ports/80?ticket=secret", "/jobs/{id}/ports/{port}"),
            Some(("open", json!({ "what": "ports/80", "method": "GET" })))
        );
        for route in [
            "/jobs/{id}",
            "/jobs/{id}/events",
            "/jobs/{id}/logs",
            "/status/{id}",
            "/jobs/{id}/audit",
            "/jobs",
        ] {
            assert_eq!(acted(Method::GET, "/jobs/x", route), None, "{route}");
        }
    }

    #[test]
    fn every_route_that_changes_something_is_recorded_somewhere() {
        let in_app = ["/schedule", "/submit", "/jobs/{id}", "/jobs/{id}/cancel", "/jobs/{id}/reply"];
        let document = serde_json::to_value(super::super::openapi_document("0")).unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in
                ["post", "put", "patch", "delete"].iter().filter(|method| item.get(**method).is_some())
            {
                let request = Request::builder()
                    .method(method.to_uppercase().as_str())
                    .uri("/jobs/x/y/z")
                    .body(Body::empty());
                let known = in_app.contains(&path.as_str())
                    || path == "/mcp"
                    || action(&request.unwrap(), path).is_some();
                assert!(known, "{method} {path} leaves no record");
            }
        }
    }

    #[tokio::test]
    async fn a_body_that_is_read_first_arrives_as_it_was() {
        let mut facts = json!({});
        let request = Request::new(Body::from(r#"{"language":"python","code":"1"}"#));
        let request = read_first(request, &mut facts).await;
        let bytes = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(facts["sha256"], digest(&bytes));
        assert_eq!((facts["language"].as_str(), facts.get("code")), (Some("python"), None));
        let request =
            read_first(Request::new(Body::from(vec![b' '; bounds::BODY_BYTES + 7])), &mut facts).await;
        assert_eq!(request.into_body().collect().await.unwrap().to_bytes().len(), bounds::BODY_BYTES + 7);
    }
}
