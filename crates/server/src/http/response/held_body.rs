//! The body of an answer that holds something until its end: a connection to a sandbox, the record of a call, room in memory.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// A body and what is dropped with it: after its last byte, or when the client has left.
pub(in crate::http) struct HeldBody<T> {
    inner: Body,
    _held: T,
}

impl<T: Unpin + Send + 'static> HeldBody<T> {
    pub(in crate::http) fn new(inner: Body, held: T) -> Self {
        Self { inner, _held: held }
    }

    /// The same as an ordinary body.
    pub(in crate::http) fn body(inner: Body, held: T) -> Body {
        Body::new(Self::new(inner, held))
    }
}

impl<T: Unpin> HttpBody for HeldBody<T> {
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
