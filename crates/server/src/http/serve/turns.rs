//! Tells the crowd whose turn it is, as bodies of requests and answers pass.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};

use super::crowd::{ConnectionTurn, CrowdMember};

/// A client that sends less than this in a piece does not get the turn anew: a byte now and then is no progress.
const PROGRESS_BYTES: usize = 16 * 1024;

/// The body of a request. While the server waits for it, it is the client's turn.
pub(super) struct TurnBody {
    inner: Incoming,
    member: Arc<CrowdMember>,
    /// Bytes since the client got the turn; `None` if the server has it.
    progress_bytes: Option<usize>,
}

impl TurnBody {
    pub(super) fn body(inner: Incoming, member: &Arc<CrowdMember>) -> Body {
        if inner.is_end_stream() {
            return Body::empty();
        }
        Body::new(Self { inner, member: Arc::clone(member), progress_bytes: None })
    }

    fn end_turn(&mut self) {
        if self.progress_bytes.take().is_some() {
            self.member.take_over();
        }
    }
}

impl HttpBody for TurnBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Pending if self.progress_bytes.is_none() => {
                self.progress_bytes = Some(0);
                self.member.set_turn(ConnectionTurn::Body);
            }
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let progress = self.progress_bytes.map(|progress| progress + bytes);
                self.progress_bytes = progress;
                if progress.is_some_and(|progress| progress >= PROGRESS_BYTES) || self.inner.is_end_stream() {
                    self.end_turn();
                }
            }
            Poll::Ready(_) => self.end_turn(),
            Poll::Pending => {}
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

impl Drop for TurnBody {
    fn drop(&mut self) {
        self.end_turn();
    }
}

/// Dropped with the body of an answer: then it is the client's turn to send the next request.
pub(super) struct EndOfAnswer(Arc<CrowdMember>);

pub(super) fn end_of_answer(member: Arc<CrowdMember>) -> EndOfAnswer {
    EndOfAnswer(member)
}

impl Drop for EndOfAnswer {
    fn drop(&mut self) {
        self.0.set_turn(ConnectionTurn::NextHead);
    }
}
