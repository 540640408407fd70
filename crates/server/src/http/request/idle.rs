//! Bodies that fail when no data comes for too long.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::Method;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;

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
pub(super) struct BodyIdle(Duration);

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
