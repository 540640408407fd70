//! The API as the tools use it: a call, its bounded answer, and the client that carries it.
//!
//! Every tool is one or a few calls of the HTTP API, so that nothing is checked or done in two ways. In the server they go
//! to the router in the same process, from `sandyard mcp` over a connection.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::request::Parts;
use bytes::Bytes;
use sandyard_api::{ApiError, ErrorBody, ErrorCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::http::response::head_and_tail::HeadAndTail;

/// Bytes of an answer that are kept of its beginning, and as many of its end, if a call does not say.
/// Views are smaller; pictures of a screen are not.
const HALF_BYTES: usize = 8 * 1024 * 1024;

/// Carries calls to a server.
#[async_trait]
pub trait ApiTransport: Send + Sync + 'static {
    /// Sends a call and collects its answer. Dropping the future gives the call up, as a client that goes away does.
    async fn send(&self, call: ApiCall) -> Result<ApiReply, ApiError>;

    /// The address of the server for a client that sent this `Host`, without a slash at the end.
    fn address(&self, host: &str) -> String;

    /// A client that calls in the name of the sender of this HTTP request, where that makes a difference.
    fn on_behalf(&self, _: &Parts) -> Option<Arc<dyn ApiTransport>> {
        None
    }
}

/// The method of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallVerb {
    /// `GET`: reads, and changes nothing.
    Get,
    /// `POST`: makes or does something.
    Post,
    /// `PUT`: writes a whole file.
    Put,
    /// `PATCH`: changes a part of a file.
    Patch,
    /// `DELETE`: removes a thing.
    Delete,
}

/// One request to the API.
#[derive(Debug, Clone)]
pub struct ApiCall {
    /// Method of the request.
    pub verb: CallVerb,
    /// Path and query of the request.
    pub path: String,
    /// Headers beside those that every request has.
    pub headers: Vec<(&'static str, String)>,
    /// Body of the request; empty for none.
    pub body: Bytes,
    half_bytes: usize,
}

impl ApiCall {
    /// A call without a body.
    pub(super) fn new(verb: CallVerb, path: impl Into<String>) -> Self {
        Self { verb, path: path.into(), headers: Vec::new(), body: Bytes::new(), half_bytes: HALF_BYTES }
    }

    /// Adds a JSON body.
    #[must_use]
    pub(super) fn json(mut self, body: &Value) -> Self {
        self.body = Bytes::from(body.to_string());
        self.header("content-type", "application/json")
    }

    /// Adds a header. The value must be valid in HTTP.
    #[must_use]
    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Keeps at most this many bytes of the answer.
    #[must_use]
    pub(super) fn keep(mut self, bytes: usize) -> Self {
        self.half_bytes = bytes / 2;
        self
    }

    /// A collector for the answer.
    pub fn collector(&self) -> ReplyCollector {
        ReplyCollector(HeadAndTail::with_half(self.half_bytes))
    }
}

/// Collects the bytes of an answer and keeps the beginning and the end.
#[derive(Debug)]
pub struct ReplyCollector(HeadAndTail);

impl ReplyCollector {
    /// Adds bytes of the body. Keeps the beginning and the end, within the bound of the call.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.push(bytes);
    }

    /// Returns the answer with the status and headers that the transport received.
    pub fn finish(self, status: u16, header: impl Fn(&str) -> Option<String>) -> ApiReply {
        ApiReply {
            status,
            is_json: header("content-type").is_some_and(|kind| kind.starts_with("application/json")),
            range: header("content-range"),
            left_out: self.0.dropped(),
            body: self.0,
        }
    }
}

/// The answer of the API.
#[derive(Debug)]
pub struct ApiReply {
    pub(super) status: u16,
    pub(super) is_json: bool,
    pub(super) range: Option<String>,
    pub(super) left_out: u64,
    body: HeadAndTail,
}

impl ApiReply {
    /// Turns a refusal of the API into an error.
    pub(super) fn accepted(self) -> Result<Self, ApiError> {
        if self.status < 400 {
            return Ok(self);
        }
        let status = self.status;
        let refusal: Option<ErrorBody> = serde_json::from_slice(&self.bytes()).ok();
        let Some(ErrorBody { error }) = refusal else {
            return Err(ApiError::new(
                ErrorCode::Internal,
                format!("the server answered with status {status}"),
            ));
        };
        let code = ErrorCode::find(&error.code, status).unwrap_or(ErrorCode::Internal);
        Err(ApiError { code, message: error.message, hint: error.hint, retry_after_s: None })
    }

    /// The answer as a view of the contract.
    pub(super) fn view<T: DeserializeOwned>(self) -> Result<T, ApiError> {
        let reply = self.accepted()?;
        if reply.left_out > 0 {
            return Err(ApiError::new(ErrorCode::TooLarge, "the answer is too large for one tool call")
                .with_hint("ask for less at once"));
        }
        serde_json::from_slice(&reply.bytes()).map_err(|error| {
            ApiError::new(ErrorCode::Internal, format!("the server's answer is not of this version: {error}"))
        })
    }

    /// The bytes that were kept, without a mark where some are left out.
    pub(super) fn bytes(self) -> Vec<u8> {
        self.body.into_bytes()
    }

    /// The bytes that were kept as text, with a line where some are left out.
    pub(super) fn text(self) -> String {
        self.body.into_text()
    }
}
