//! Bodies of recorded calls: read first, hashed as they pass, or followed to their end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use sandyard_api::bounds;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::audit::{BodyFacts, cut, digest};

/// Hash and length of the bytes that have passed.
pub(super) type BodyHash = Arc<Mutex<(Sha256, u64)>>;

/// Reads a body for its hash and puts it back. A body that is too long or breaks off is left to the handler to refuse.
pub(super) async fn read_first(request: Request) -> (Request, BodyFacts) {
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > bounds::BODY_BYTES) {
        return (request, BodyFacts::default());
    }
    let (parts, mut body) = request.into_parts();
    let mut bytes = BytesMut::with_capacity(announced.unwrap_or(0));
    let rest = loop {
        match body.frame().await {
            None => break None,
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            Some(Err(error)) => break Some(StreamExt::boxed(stream::once(async { Err::<Bytes, _>(error) }))),
        }
        // The handler refuses such a body. It gets the bytes that were read and the rest as they come.
        if bytes.len() > bounds::BODY_BYTES {
            break Some(StreamExt::boxed(body.into_data_stream()));
        }
    };
    let bytes = bytes.freeze();
    let facts = describe_call(&bytes, rest.is_none());
    let body = match rest {
        None => Body::from(bytes),
        Some(rest) => Body::from_stream(stream::once(async { Ok(bytes) }).chain(rest)),
    };
    (Request::from_parts(parts, body), facts)
}

/// The hash of a call and those of its members that say what kind of call it is.
fn describe_call(bytes: &[u8], whole: bool) -> BodyFacts {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let member = |name| body.get(name).and_then(Value::as_str).map(|text| cut(text, 64));
    BodyFacts {
        bytes: Some(bytes.len()),
        sha256: whole.then(|| digest(bytes)),
        language: member("language"),
        kernel: member("kernel"),
        purpose: member("for"),
    }
}

/// A body that is hashed as it passes.
pub(super) struct HashedBody {
    pub(super) inner: Body,
    pub(super) hash: BodyHash,
}

impl HttpBody for HashedBody {
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
            let mut hash = self.hash.lock();
            hash.0.update(data);
            hash.1 += data.len() as u64;
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

/// The body of an answer that holds something until its end.
pub(super) struct HeldUntilEnd<T> {
    pub(super) inner: Body,
    pub(super) _held: T,
}

impl<T: Unpin> HttpBody for HeldUntilEnd<T> {
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
