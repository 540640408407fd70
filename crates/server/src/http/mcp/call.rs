//! The API as the tools use it: a call, its answer within bounds, and who carries it.
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

use super::super::shell_output::HeadAndTail;

/// Bytes of an answer that are kept of its beginning, and as many of its end, if a call does not say.
/// Views are smaller; pictures of a screen are not.
const HALF_BYTES: usize = 8 * 1024 * 1024;

/// Carries calls to a server.
#[async_trait]
pub trait Api: Send + Sync + 'static {
    /// Sends a call and collects its answer. Dropping the future gives the call up, as a client that goes away does.
    async fn send(&self, call: Call) -> Result<Reply, ApiError>;

    /// Where a client finds the server that came to it by this `Host`, without a slash at the end.
    fn address(&self, host: &str) -> String;

    /// The same for the client whose request came over HTTP, where that makes a difference.
    fn on_behalf(&self, _: &Parts) -> Option<Arc<dyn Api>> {
        None
    }
}

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads.
    Get,
    /// Makes or does something.
    Post,
    /// Writes a whole file.
    Put,
    /// Changes a file.
    Patch,
}

/// One request to the API.
#[derive(Debug, Clone)]
pub struct Call {
    /// How.
    pub verb: Verb,
    /// Path and query.
    pub path: String,
    /// Headers beside those that every request has.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
    half_bytes: usize,
}

impl Call {
    /// A call without a body.
    pub(super) fn new(verb: Verb, path: impl Into<String>) -> Self {
        Self { verb, path: path.into(), headers: Vec::new(), body: Bytes::new(), half_bytes: HALF_BYTES }
    }

    /// The same with a JSON body.
    #[must_use]
    pub(super) fn json(mut self, body: &Value) -> Self {
        self.body = Bytes::from(body.to_string());
        self.header("content-type", "application/json")
    }

    /// The same with a header.
    #[must_use]
    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same, of whose answer at most this many bytes are kept.
    #[must_use]
    pub(super) fn keep(mut self, bytes: usize) -> Self {
        self.half_bytes = bytes / 2;
        self
    }

    /// What collects the answer.
    pub fn collector(&self) -> Collector {
        Collector(HeadAndTail::with_half(self.half_bytes))
    }
}

/// Takes the bytes of an answer as they come, of which it keeps the beginning and the end.
#[derive(Debug)]
pub struct Collector(HeadAndTail);

impl Collector {
    /// Takes more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.push(bytes);
    }

    /// The whole answer.
    pub fn finish(self, status: u16, header: impl Fn(&str) -> Option<String>) -> Reply {
        Reply {
            status,
            is_json: header("content-type").is_some_and(|kind| kind.starts_with("application/json")),
            range: header("content-range"),
            left_out: self.0.dropped(),
            body: self.0,
        }
    }
}

/// What the API answered.
#[derive(Debug)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) is_json: bool,
    pub(super) range: Option<String>,
    pub(super) left_out: u64,
    body: HeadAndTail,
}

impl Reply {
    /// The same, unless it is a refusal.
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

    /// What was kept, without a mark where something is left out.
    pub(super) fn bytes(self) -> Vec<u8> {
        self.body.into_bytes()
    }

    /// What was kept as text, with a line where something is left out.
    pub(super) fn text(self) -> String {
        self.body.into_text()
    }
}
