//! The byte stream of a connection: its writes fail when the other side takes nothing for too long, and all of it fails when
//! the connection has to leave the crowd. A reader that stalls must not hold a file, a guest's stream or a connection for ever.
//!
//! The stream also outlives an upgrade, so sockets and tunnels keep their place in the crowd.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::crowd::{ConnectionTurn, CrowdMember};

/// A stream whose writes fail after `limit` without progress.
#[derive(Debug)]
pub(super) struct WatchedIo<I> {
    io: I,
    limit: Duration,
    member: Arc<CrowdMember>,
    stall: Option<WriteStall>,
}

/// A write that waits for the client.
#[derive(Debug)]
struct WriteStall {
    sleep: Pin<Box<Sleep>>,
    /// The turn to return to.
    turn: ConnectionTurn,
}

impl<I: Unpin> WatchedIo<I> {
    pub(super) fn new(io: I, limit: Duration, member: Arc<CrowdMember>) -> Self {
        Self { io, limit, member, stall: None }
    }

    /// Bounds a write of so many bytes.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        bytes: usize,
        poll: Poll<Result<T>>,
    ) -> Poll<Result<T>> {
        if poll.is_ready() {
            if let Some(stall) = self.stall.take() {
                self.member.set_turn(stall.turn);
                self.member.set_unwritten(0);
            }
            return poll;
        }
        if self.member.must_leave(context.waker()) {
            return Poll::Ready(Err(left()));
        }
        self.member.set_unwritten(bytes);
        let (member, limit) = (&self.member, self.limit);
        let stall = self.stall.get_or_insert_with(|| {
            let (turn, _) = member.turn();
            member.set_turn(ConnectionTurn::Answer);
            WriteStall { sleep: Box::pin(tokio::time::sleep(limit)), turn }
        });
        ready!(stall.sleep.as_mut().poll(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client takes nothing")))
    }
}

fn left() -> Error {
    Error::new(ErrorKind::ConnectionAborted, "the connection made room for others")
}

impl<I> Drop for WatchedIo<I> {
    fn drop(&mut self) {
        self.member.leave();
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WatchedIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let poll = Pin::new(&mut self.io).poll_read(context, buffer);
        if poll.is_pending() && self.member.must_leave(context.waker()) {
            return Poll::Ready(Err(left()));
        }
        poll
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WatchedIo<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write(context, bytes);
        self.bounded(context, bytes.len(), poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.bounded(context, parts.iter().map(|part| part.len()).sum(), poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::ServeLimits;
    use super::super::crowd::{Crowd, PeerNetwork};
    use super::*;

    fn watched<I: Unpin>(io: I, limit: Duration) -> (WatchedIo<I>, Arc<Crowd>) {
        let crowd = Crowd::new(&ServeLimits { connections: 1, ..ServeLimits::default() });
        let member = crowd.enter(PeerNetwork::of(None)).unwrap();
        (WatchedIo::new(io, limit, member), crowd)
    }

    #[tokio::test]
    async fn f16_a_reader_that_stalls_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let (mut writer, _crowd) = watched(ours, Duration::from_millis(20));
        let error = writer.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn f6_a_connection_that_waits_makes_room_at_once() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let (mut reader, crowd) = watched(ours, Duration::from_secs(60));
        let reading = tokio::spawn(async move { reader.read_u8().await.unwrap_err().kind() });
        tokio::task::yield_now().await;
        assert!(crowd.enter(PeerNetwork::of(None)).is_some());
        assert_eq!(reading.await.unwrap(), ErrorKind::ConnectionAborted);
    }
}
