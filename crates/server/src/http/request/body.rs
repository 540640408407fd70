//! Request bodies: bounded in bytes and in idle time, and of an expected type.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::http::{HeaderMap, Method};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use sandyard_api::{ApiError, ErrorCode, bounds};
use serde_json::Value;
use tokio::time::Sleep;

use crate::http::response::failure::HttpFailure;

/// A body over the limit is read and discarded up to here, so that the client reads the refusal rather than a reset
/// connection.
const MAX_DISCARD_BYTES: usize = 64 * 1024 * 1024;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

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

/// A whole JSON body.
pub(in crate::http) async fn json(headers: &HeaderMap, body: Body) -> Result<Value, HttpFailure> {
    if body_type(headers)? != BodyType::Json {
        let error = ApiError::new(ErrorCode::UnsupportedMediaType, "the body must be JSON");
        return Err(error.with_hint("send `Content-Type: application/json`").into());
    }
    parse_json(&whole(headers, body, bounds::BODY_BYTES).await?)
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

/// A whole body of at most `limit` bytes.
pub(in crate::http) async fn whole(
    headers: &HeaderMap,
    mut body: Body,
    limit: usize,
) -> Result<Bytes, HttpFailure> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        // A client that expects `100 Continue` has not sent the body. Any other is writing, and would not read the refusal.
        if !headers.contains_key(EXPECT) {
            discard(body).await;
        }
        return Err(too_large(limit));
    }
    let mut bytes = BytesMut::with_capacity(announced.unwrap_or(0));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| unreadable(&error))?.into_data() else { continue };
        // Counted while it comes: a chunked body announces no length.
        if bytes.len() + data.len() > limit {
            discard(body).await;
            return Err(too_large(limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
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
pub(in crate::http) fn too_large(limit: usize) -> HttpFailure {
    ApiError::new(ErrorCode::TooLarge, format!("the body is larger than {limit} bytes"))
        .with_hint("large files go to PUT /jobs/{id}/files/{path} with a Content-Length")
        .into()
}

/// A body that broke off or came too slowly.
pub(in crate::http) fn unreadable(error: &axum::Error) -> HttpFailure {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = source {
        if cause.is::<BodyIdle>() {
            return ApiError::new(ErrorCode::RequestTimeout, "the body came too slowly").into();
        }
        source = cause.source();
    }
    ApiError::new(ErrorCode::BadRequest, "the body broke off").into()
}

/// Makes the body of a request fail when no data comes for this long.
pub(in crate::http) fn with_idle_limit(request: Request, limit: Duration) -> Request {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::DELETE) {
        return request;
    }
    request.map(|body| idle_limited(body, limit))
}

/// Makes a body fail when no data comes for this long.
pub(in crate::http) fn idle_limited(inner: Body, limit: Duration) -> Body {
    Body::new(IdleLimited { inner, limit, sleep: None })
}

/// No data came for too long.
#[derive(Debug, thiserror::Error)]
#[error("no data within {} s", .0.as_secs())]
struct BodyIdle(Duration);

struct IdleLimited {
    inner: Body,
    limit: Duration,
    /// Runs while data is awaited.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for IdleLimited {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            self.sleep = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let limit = self.limit;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match sleep.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(Box::new(BodyIdle(limit))))),
            Poll::Pending => Poll::Pending,
        }
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
    use axum::http::HeaderValue;

    use super::*;

    fn typed(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))])
    }

    #[test]
    fn types_are_known_with_their_parameters() {
        assert_eq!(body_type(&typed("application/json; charset=UTF-8")).unwrap(), BodyType::Json);
        assert_eq!(body_type(&typed("Text/Plain")).unwrap(), BodyType::Text);
        assert_eq!(body_type(&typed("application/problem+json")).unwrap(), BodyType::Json);
        for value in ["text/html", "application/x-www-form-urlencoded", "text/plain; charset=latin1", ""] {
            assert_eq!(body_type(&typed(value)).unwrap_err().code(), "unsupported_media_type", "{value}");
        }
        assert!(body_type(&HeaderMap::new()).is_err());
    }

    #[tokio::test]
    async fn r20_size_and_depth_are_bounded() {
        let headers = typed("application/json");
        let deep = "[".repeat(1_000_000);
        assert_eq!(json(&headers, Body::from(deep)).await.unwrap_err().code(), "invalid_json");
        let large = vec![b' '; bounds::BODY_BYTES + 1];
        assert_eq!(json(&headers, Body::from(large)).await.unwrap_err().code(), "too_large");
    }

    #[tokio::test]
    async fn w20_a_body_that_stalls_times_out() {
        let stalled = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let mut request = Request::new(stalled);
        *request.method_mut() = Method::POST;
        let request = with_idle_limit(request, Duration::from_millis(20));
        let failure = whole(&HeaderMap::new(), request.into_body(), 100).await.unwrap_err();
        assert_eq!(failure.code(), "request_timeout");
    }
}
