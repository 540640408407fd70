//! Request bodies that are read whole: bounded in bytes, values, memory and time, and of an expected type.
//!
//! A handler takes a [`RequestBody`]. Its bytes are counted while they come: JSON is refused at the first piece with too many
//! values, a large body takes room of the budget for all bodies, and a slow one runs out of time. Large bodies are hashed and
//! parsed on threads of their own, few at a time, so other requests wait for none of them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use sandyard_api::{ApiError, ErrorCode, bounds};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::idle::BodyIdle;
use super::room::{BodyBudget, BodyRoom, NoBodyRoom};
use crate::http::response::failure::HttpFailure;
use crate::json_scan::JsonScan;

/// A body over the limit is read and discarded up to here, so that the client reads the refusal rather than a reset
/// connection.
const MAX_DISCARD_BYTES: usize = 64 * 1024 * 1024;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// Most values in one body. The largest request within its bounds, a thousand edits of a file, has five thousand. The worst
/// body takes 20 MB as values.
const MAX_BODY_VALUES: usize = 32 * 1024;
/// Deepest nesting; the parser has the same bound.
const MAX_BODY_DEPTH: usize = 128;
/// Slowest body: 16 MiB take 17 minutes. A slower client keeps memory for too long.
const MIN_BYTES_PER_S: u64 = 16 * 1024;
/// The time that a body may take in addition.
const SLOW_START: Duration = Duration::from_secs(30);
/// A body up to this length is parsed where it is: it takes less than a millisecond.
const INLINE_BYTES: usize = 64 * 1024;
/// Large bodies parsed at once. Each takes a processor and a few times its length.
const MAX_PARSERS: usize = 2;

/// The type of a body, by its `Content-Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum BodyType {
    /// `application/json`, or anything that ends in `+json`.
    Json,
    /// `text/plain`, read as UTF-8.
    Text,
}

/// The type of a body, or an error that names the accepted types.
pub(in crate::http) fn body_type(headers: &HeaderMap) -> Result<BodyType, HttpFailure> {
    let refused = |message: &str| {
        ApiError::new(ErrorCode::UnsupportedMediaType, message)
            .with_hint("send `Content-Type: application/json`, or `text/plain` for a task in words")
    };
    let value = headers.get(CONTENT_TYPE).ok_or_else(|| refused("the request has no Content-Type"))?;
    let value = value.to_str().unwrap_or_default().to_ascii_lowercase();
    let mut parts = value.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let charset = parts.find_map(|part| part.strip_prefix("charset=")).map(|name| name.trim_matches('"'));
    if charset.is_some_and(|charset| !matches!(charset, "utf-8" | "utf8" | "us-ascii")) {
        return Err(refused("the body must be UTF-8").into());
    }
    match kind {
        "application/json" => Ok(BodyType::Json),
        "text/plain" => Ok(BodyType::Text),
        other if other.starts_with("application/") && other.ends_with("+json") => Ok(BodyType::Json),
        _ => Err(refused("the Content-Type is not one that is taken here").into()),
    }
}

/// Refuses a body that is not announced as JSON.
pub(in crate::http) fn require_json(headers: &HeaderMap) -> Result<(), HttpFailure> {
    if body_type(headers)? == BodyType::Json {
        return Ok(());
    }
    let error = ApiError::new(ErrorCode::UnsupportedMediaType, "the body must be JSON");
    Err(error.with_hint("send `Content-Type: application/json`").into())
}

/// A whole body and its room. Clones share both.
#[derive(Debug, Clone)]
pub(in crate::http) struct WholeBody {
    pub(in crate::http) bytes: Bytes,
    /// Held until the request is answered.
    pub(in crate::http) room: Arc<BodyRoom>,
}

/// Reads bodies for all requests of a listener.
#[derive(Debug)]
pub(in crate::http) struct BodyReader {
    budget: Arc<BodyBudget>,
    parsers: Arc<Semaphore>,
}

impl BodyReader {
    pub(in crate::http) fn new(budget_bytes: usize) -> Arc<Self> {
        let parsers = Arc::new(Semaphore::new(MAX_PARSERS));
        Arc::new(Self { budget: BodyBudget::new(budget_bytes), parsers })
    }

    /// The memory of all bodies.
    pub(in crate::http) fn budget(&self) -> &BodyBudget {
        &self.budget
    }

    /// Reads a JSON body whose values will be parsed.
    pub(in crate::http) async fn whole_json(
        &self,
        headers: &HeaderMap,
        body: Body,
        limit_bytes: usize,
    ) -> Result<WholeBody, HttpFailure> {
        self.collect(headers, body, limit_bytes, Some(JsonScan::default())).await
    }

    async fn collect(
        &self,
        headers: &HeaderMap,
        mut body: Body,
        limit_bytes: usize,
        scan: Option<JsonScan>,
    ) -> Result<WholeBody, HttpFailure> {
        let announced = announced(headers);
        if announced.is_some_and(|length| length > limit_bytes as u64) {
            // A client that expects `100 Continue` has not sent the body. Any other is writing, and would not read the refusal.
            if !headers.contains_key(EXPECT) {
                discard(body).await;
            }
            return Err(too_large(limit_bytes));
        }
        let room = self.budget.empty_room();
        let mut taken = PartOfBody { bytes: BytesMut::new(), began: Instant::now(), limit_bytes, scan, room };
        let expected = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        loop {
            // Dropping the wait for a frame loses nothing: the body keeps it.
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = taken.room.taken_back() => return Err(ApiError::from(NoBodyRoom).into()),
            };
            let Some(frame) = frame else { break };
            let Ok(data) = frame.map_err(|error| unreadable(&error))?.into_data() else { continue };
            if let Err(refusal) = taken.admit(&data).await {
                discard(body).await;
                return Err(refusal);
            }
            // The usual body is one piece, and need not be copied.
            if taken.bytes.is_empty() && body.is_end_stream() {
                return Ok(WholeBody { bytes: data, room: Arc::new(taken.room.finish()) });
            }
            let missing = expected.saturating_sub(taken.bytes.len());
            taken.bytes.reserve(missing.max(data.len()));
            taken.bytes.extend_from_slice(&data);
        }
        Ok(WholeBody { bytes: taken.bytes.freeze(), room: Arc::new(taken.room.finish()) })
    }

    /// Runs work on a body of this length: at once if it is small, else on a thread that may take its time.
    pub(in crate::http) async fn work<T: Send + 'static>(
        &self,
        length: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpFailure> {
        if length <= INLINE_BYTES {
            return Ok(work());
        }
        let failed = |_| ApiError::new(ErrorCode::Internal, "the body could not be read");
        let permit = Arc::clone(&self.parsers).acquire_owned().await.map_err(|_| failed(()))?;
        // The permit goes with the work, which ends by itself after a client that leaves.
        let worked = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        Ok(worked.await.map_err(|_| failed(()))?)
    }
}

/// What has arrived of a body.
struct PartOfBody {
    bytes: BytesMut,
    began: Instant,
    limit_bytes: usize,
    scan: Option<JsonScan>,
    room: BodyRoom,
}

impl PartOfBody {
    /// Checks the next piece. Counted while it comes: a chunked body announces no length.
    async fn admit(&mut self, data: &[u8]) -> Result<(), HttpFailure> {
        let length = self.bytes.len() + data.len();
        if length > self.limit_bytes {
            return Err(too_large(self.limit_bytes));
        }
        if self.began.elapsed() > SLOW_START + Duration::from_secs(length as u64 / MIN_BYTES_PER_S) {
            return Err(too_slow());
        }
        if let Some(scan) = &mut self.scan {
            scan.push(data);
            check_shape(scan)?;
        }
        Ok(self.room.grow_to(length).await.map_err(ApiError::from)?)
    }
}

fn check_shape(scan: &JsonScan) -> Result<(), HttpFailure> {
    if scan.deepest() > MAX_BODY_DEPTH {
        let message = format!("the body is nested deeper than {MAX_BODY_DEPTH} levels");
        return Err(ApiError::new(ErrorCode::InvalidJson, message).into());
    }
    if scan.values() > MAX_BODY_VALUES {
        let message = format!("the body has more than {MAX_BODY_VALUES} values");
        let hint = "send less in one request; data goes to PUT /jobs/{id}/files/{path} as a file";
        return Err(ApiError::new(ErrorCode::TooLarge, message).with_hint(hint).into());
    }
    Ok(())
}

/// The body of a request, read or not. A layer that has read it leaves a [`WholeBody`] in the extensions of the request.
pub(in crate::http) struct RequestBody {
    headers: HeaderMap,
    body: Body,
    whole: Option<WholeBody>,
    reader: Arc<BodyReader>,
}

impl<S> FromRequest<S> for RequestBody
where
    S: Send + Sync,
    Arc<BodyReader>: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Infallible> {
        let (mut parts, body) = request.into_parts();
        let whole = parts.extensions.remove();
        Ok(Self { headers: parts.headers, body, whole, reader: Arc::from_ref(state) })
    }
}

impl RequestBody {
    /// A request of the contract from a JSON body. The room must be held until the request is answered.
    pub(in crate::http) async fn json<T: Send + 'static>(
        self,
        read: fn(&Value) -> Result<T, ApiError>,
    ) -> Result<(T, Arc<BodyRoom>), HttpFailure> {
        require_json(&self.headers)?;
        let reader = Arc::clone(&self.reader);
        let WholeBody { bytes, room } = self.whole(BodyType::Json).await?;
        let length = bytes.len();
        let work = move || parse_json(&bytes).and_then(|value| Ok(read(&value)?));
        Ok((reader.work(length, work).await??, room))
    }

    /// The whole body, within the bound of all routes. Values of JSON are counted.
    pub(in crate::http) async fn whole(self, kind: BodyType) -> Result<WholeBody, HttpFailure> {
        let scan = (kind == BodyType::Json).then(JsonScan::default);
        match self.whole {
            Some(whole) => Ok(whole),
            None => self.reader.collect(&self.headers, self.body, bounds::BODY_BYTES, scan).await,
        }
    }

    /// The type of the body.
    pub(in crate::http) fn kind(&self) -> Result<BodyType, HttpFailure> {
        body_type(&self.headers)
    }

    /// The reader, for work on the whole body.
    pub(in crate::http) fn reader(&self) -> Arc<BodyReader> {
        Arc::clone(&self.reader)
    }

    /// The length that the client announced.
    pub(in crate::http) fn announced(&self) -> Option<u64> {
        announced(&self.headers)
    }

    /// The bytes as they come.
    pub(in crate::http) fn into_stream(self) -> Body {
        match self.whole {
            Some(whole) => Body::from(whole.bytes),
            None => self.body,
        }
    }
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok())
}

/// JSON from bytes; nesting is bounded by the parser.
pub(in crate::http) fn parse_json(bytes: &[u8]) -> Result<Value, HttpFailure> {
    serde_json::from_slice(bytes).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        ApiError::new(ErrorCode::InvalidJson, format!("the body is not JSON: {} at {place}", plain(&error)))
            .into()
    })
}

/// The parser's message without the position, which our message has.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

async fn discard(mut body: Body) {
    let reading = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > MAX_DISCARD_BYTES {
                return;
            }
        }
    };
    // Reading on lets most clients see the refusal. After the timeout the connection is closed all the same.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, reading).await;
}

/// A body over its limit.
fn too_large(limit_bytes: usize) -> HttpFailure {
    ApiError::new(ErrorCode::TooLarge, format!("the body is larger than {limit_bytes} bytes"))
        .with_hint("large files go to PUT /jobs/{id}/files/{path} with a Content-Length")
        .into()
}

fn too_slow() -> HttpFailure {
    ApiError::new(ErrorCode::RequestTimeout, "the body came too slowly").into()
}

/// A body that broke off or came too slowly.
pub(in crate::http) fn unreadable(error: &axum::Error) -> HttpFailure {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = source {
        if cause.is::<BodyIdle>() {
            return too_slow();
        }
        source = cause.source();
    }
    ApiError::new(ErrorCode::BadRequest, "the body broke off").into()
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
