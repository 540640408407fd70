//! `/mcp`: the API for clients of the Model Context Protocol, over streamable HTTP.
//!
//! Owns the tools and their descriptions; the API does their work. A request passes `gate` like every other, the protocol is
//! `rmcp`'s, a call of a tool becomes calls of our own router in the same process (`InProcessApi`), and answers are shaped
//! for a model to read. Nothing is kept between two requests, so a client notices no restart of the server.
//! `sandyard mcp` serves the same [`Tools`] over its standard streams.

mod answer;
mod arguments;
mod call;
mod handler;
mod tools;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http_body_util::BodyExt;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sandyard_api::{ApiError, ErrorBody, ErrorCode, bounds};
use tokio::runtime::Handle;
use tower::ServiceExt;

pub use call::{ApiCall, ApiReply, ApiTransport, CallVerb, ReplyCollector};
pub use handler::{StreamsError, Tools};

use super::gate::InProcessCaller;
use crate::auth::{Caller, unauthorized};
use crate::http::HttpState;
use crate::http::request::body::{BodyReader, WholeBody};
use crate::http::request::room::BodyRoom;
use crate::http::response::failure::{HttpAnswer, HttpFailure};
use crate::http::response::held_body::HeldBody;

/// Longest message of a client: a body of the API, at worst in base64, and the JSON around it.
const MAX_MESSAGE_BYTES: usize = bounds::BODY_BYTES / 3 * 4 + 64 * 1024;

/// The protocol's service, which the route `/mcp` passes messages to.
#[derive(Clone)]
pub(super) struct McpService {
    protocol: StreamableHttpService<Tools, NeverSessionManager>,
    reader: Arc<BodyReader>,
}

impl McpService {
    /// The service whose tools call this router.
    pub(super) fn new(state: &HttpState, api: Router) -> Self {
        // Host and Origin are checked by `gate`, by the rules of the whole API.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
            .with_cancellation_token(state.shutdown().clone())
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let api = InProcessApi { api, state: state.clone(), caller: None, room: None };
        let tools = Tools::new(Arc::new(api), state.version(), "");
        let make = move || Ok(tools.clone());
        let protocol = StreamableHttpService::new(make, Arc::new(NeverSessionManager::default()), config);
        Self { protocol, reader: Arc::clone(state.bodies()) }
    }

    /// Answers a message. Its values are counted before the protocol parses them, and the memory of a large one counts as long
    /// as its tool works.
    async fn answer(&self, request: Request) -> HttpAnswer {
        let (mut parts, body) = request.into_parts();
        let WholeBody { bytes, room } =
            self.reader.whole_json(&parts.headers, body, MAX_MESSAGE_BYTES).await?;
        parts.extensions.insert(MessageRoom(Arc::clone(&room)));
        let length = bytes.len();
        let request = Request::from_parts(parts, Body::from(bytes));
        let protocol = self.protocol.clone();
        let mut handling = Box::pin(async move { protocol.handle(request).await });
        // The message is parsed when it is first polled. A large one takes a while, so that happens on a thread of its own;
        // the second poll registers with the task that waits from then on.
        let runtime = Handle::current();
        let (first, handling) = self
            .reader
            .work(length, move || {
                let _entered = runtime.enter();
                let first = handling.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                (first, handling)
            })
            .await?;
        let response = match first {
            Poll::Ready(response) => response,
            Poll::Pending => handling.await,
        };
        Ok(in_our_words(response.map(|body| HeldBody::body(Body::new(body), room))))
    }
}

/// Refusals of the protocol's transport are plain text; ours are JSON.
fn in_our_words(response: Response) -> Response {
    let status = response.status();
    let plain =
        response.headers().get(CONTENT_TYPE).is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !status.is_client_error() || !plain {
        return response;
    }
    let (code, message) = match status {
        StatusCode::METHOD_NOT_ALLOWED => (ErrorCode::MethodNotAllowed, "messages are sent with POST"),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            (ErrorCode::UnsupportedMediaType, "a message is `application/json`")
        }
        StatusCode::PAYLOAD_TOO_LARGE => (ErrorCode::TooLarge, "the message is too large"),
        StatusCode::NOT_ACCEPTABLE => {
            (ErrorCode::BadRequest, "the Accept header must name `application/json` and `text/event-stream`")
        }
        _ => (ErrorCode::BadRequest, "this is no message of the Model Context Protocol"),
    };
    let refusal = ApiError::new(code, message)
        .with_hint("give this address to an MCP client as a streamable HTTP server");
    let mut answer = HttpFailure::from(refusal).into_response();
    answer
        .headers_mut()
        .extend(response.headers().get("allow").cloned().map(|allow| (axum::http::header::ALLOW, allow)));
    answer
}

/// The room of a message, on its way to the calls of its tool.
#[derive(Debug, Clone)]
struct MessageRoom(Arc<BodyRoom>);

/// The API in this process: the routes behind `gate`, which the client's own request has passed.
struct InProcessApi {
    api: Router,
    state: HttpState,
    /// The client; `None` before it is known, and then nothing can be called.
    caller: Option<Caller>,
    /// The memory of the client's message, which that of the calls made from it is part of.
    room: Option<Arc<BodyRoom>>,
}

#[async_trait]
impl ApiTransport for InProcessApi {
    async fn send(&self, call: ApiCall) -> Result<ApiReply, ApiError> {
        let mut collector = call.collector();
        let bytes = call.body.clone();
        let mut request =
            request(call).map_err(|_| ApiError::new(ErrorCode::BadRequest, "an argument can't be sent"))?;
        let caller = self.caller.clone().ok_or_else(unauthorized)?;
        request.extensions_mut().insert(InProcessCaller(caller));
        if let Some(room) = self.room.clone() {
            request.extensions_mut().insert(WholeBody { bytes, room });
        }
        let answered = self.api.clone().oneshot(request).await;
        let mut response = answered.unwrap_or_else(|never| match never {});
        if let Some(failure) = response.extensions_mut().remove::<HttpFailure>() {
            response = failure.render("", &HeaderMap::new());
        }
        let (parts, mut body) = response.into_parts();
        while let Some(frame) = body.frame().await {
            let broken = |_| ApiError::new(ErrorCode::SandboxFailed, "the answer broke off");
            collector.push(frame.map_err(broken)?.data_ref().map_or(&[], |data| data));
        }
        let header = |name: &str| Some(parts.headers.get(name)?.to_str().ok()?.to_owned());
        Ok(collector.finish(parts.status.as_u16(), header))
    }

    fn address(&self, host: &str) -> String {
        self.state.access().own_url(host)
    }

    fn on_behalf(&self, client: &Parts) -> Option<Arc<dyn ApiTransport>> {
        let caller = client.extensions.get::<Caller>().cloned().map(Caller::over_mcp);
        let room = client.extensions.get::<MessageRoom>().map(|room| Arc::clone(&room.0));
        Some(Arc::new(Self { api: self.api.clone(), state: self.state.clone(), caller, room }))
    }
}

fn request(call: ApiCall) -> Result<Request, axum::http::Error> {
    let method = match call.verb {
        CallVerb::Get => Method::GET,
        CallVerb::Post => Method::POST,
        CallVerb::Put => Method::PUT,
        CallVerb::Patch => Method::PATCH,
        CallVerb::Delete => Method::DELETE,
    };
    let length = call.body.len();
    let mut request =
        axum::http::Request::builder().method(method).uri(call.path).header("content-length", length);
    for (name, value) in call.headers {
        request = request.header(name, value);
    }
    request.body(Body::from(call.body))
}

/// The Model Context Protocol (streamable HTTP), for clients of that protocol: tools to schedule and follow jobs and to work
/// in live sandboxes.
#[utoipa::path(
    post, path = "/mcp", tag = "yard",
    request_body(content = serde_json::Value, content_type = "application/json", description = "A message of the protocol"),
    responses(
        (status = 200, description = "Its answer", content((serde_json::Value = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "A notification, taken"),
        (status = 400, description = "No message of the protocol", body = ErrorBody),
        (status = 401, body = ErrorBody),
        (status = 413, description = "Too large, or too many values", body = ErrorBody),
    )
)]
pub(super) async fn message(Extension(service): Extension<Arc<McpService>>, request: Request) -> HttpAnswer {
    if request.method() != Method::POST {
        return Ok(in_our_words(service.protocol.handle(request).await.map(Body::new)));
    }
    service.answer(request).await
}
