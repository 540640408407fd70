//! Bodies of recorded calls: read first, or hashed as they pass.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use sandyard_api::bounds;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::audit::{BodyFacts, cut, digest};
use crate::http::request::body::{BodyReader, WholeBody};
use crate::http::response::failure::HttpFailure;

/// Hash and length of the bytes that have passed.
pub(super) type BodyHash = Arc<Mutex<(Sha256, u64)>>;

/// Reads a JSON body for its hash and leaves it to the handler.
pub(super) async fn read_first(
    reader: &BodyReader,
    mut request: Request,
) -> Result<(Request, BodyFacts), HttpFailure> {
    let whole = match request.extensions_mut().remove::<WholeBody>() {
        Some(whole) => whole,
        None => {
            let body = std::mem::take(request.body_mut());
            reader.whole_json(request.headers(), body, bounds::BODY_BYTES).await?
        }
    };
    let bytes = whole.bytes.clone();
    let facts = reader.work(bytes.len(), move || describe_call(&bytes)).await?;
    request.extensions_mut().insert(whole);
    Ok((request, facts))
}

/// The hash of a call and those of its members that say what kind of call it is.
fn describe_call(bytes: &[u8]) -> BodyFacts {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let member = |name| body.get(name).and_then(Value::as_str).map(|text| cut(text, 64));
    BodyFacts {
        bytes: Some(bytes.len()),
        sha256: Some(digest(bytes)),
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
