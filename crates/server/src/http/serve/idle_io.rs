//! A byte stream whose writes fail when the other side takes nothing for too long: a reader that stalls must not hold
//! a file, a guest's stream or a connection for ever.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream whose writes fail after `limit` without progress. Reads pass through.
#[derive(Debug)]
pub(super) struct IdleWrites<I> {
    io: I,
    limit: Duration,
    /// Runs while a write waits.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<I: Unpin> IdleWrites<I> {
    pub(super) fn new(io: I, limit: Duration) -> Self {
        Self { io, limit, sleep: None }
    }

    fn bounded<T>(&mut self, context: &mut Context<'_>, poll: Poll<Result<T>>) -> Poll<Result<T>> {
        if poll.is_ready() {
            self.sleep = None;
            return poll;
        }
        let limit = self.limit;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(sleep.as_mut().poll(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for IdleWrites<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for IdleWrites<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write(context, bytes);
        self.bounded(context, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.bounded(context, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let poll = Pin::new(&mut self.io).poll_flush(context);
        self.bounded(context, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn f16_a_reader_that_stalls_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut writer = IdleWrites::new(ours, Duration::from_millis(20));
        let error = writer.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
