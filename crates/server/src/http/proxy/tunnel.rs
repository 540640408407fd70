//! Bytes both ways between a client and a port, after an upgrade: WebSockets as they are, or plain TCP.

use std::io::Result;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// Longest time of an upgrade. Both sides have just agreed to it; one that takes longer is gone.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(30);
/// A development server's socket may be silent through a lunch break; a half-open one would be for days.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);
/// Buffer for each direction: a few frames of a picture, little for each of many silent sockets.
const BUFFER_BYTES: usize = 32 * 1024;

/// Carries bytes until a side ends, nothing moves for too long, or the server stops. `held` is kept until then.
pub(super) fn carry<S>(
    client: OnUpgrade,
    sandbox: impl Future<Output = Result<S>> + Send + 'static,
    held: impl Send + 'static,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let _held = held;
        // Bounded: a client that never completes its upgrade would hold a lane and a stream of the pipe for ever.
        let both = async { tokio::join!(client, sandbox) };
        let Ok((Ok(client), Ok(sandbox))) = tokio::time::timeout(UPGRADE_TIMEOUT, both).await else { return };
        // The exchange ends by itself; the server's stop must not wait for a silent socket. Cancelling drops both streams, and
        // bytes that were read and not yet written are lost, as with any connection that is closed.
        tokio::select! {
            () = exchange(TokioIo::new(client), sandbox, IDLE_TIMEOUT) => {}
            () = stop.cancelled() => {}
        }
    });
}

async fn exchange(
    client: impl AsyncRead + AsyncWrite + Unpin,
    sandbox: impl AsyncRead + AsyncWrite + Unpin,
    idle: Duration,
) {
    let clock = ActivityClock::default();
    let (mut client, mut sandbox) =
        (TimedStream { io: client, clock: clock.clone() }, TimedStream { io: sandbox, clock: clock.clone() });
    let copy =
        tokio::io::copy_bidirectional_with_sizes(&mut client, &mut sandbox, BUFFER_BYTES, BUFFER_BYTES);
    tokio::select! {
        // A failure of either side ends both. `silence` only reads a clock, so it takes nothing from the copy.
        _ = copy => {}
        () = clock.silence(idle) => {}
    }
}

/// The time of the last bytes from either side.
#[derive(Debug, Clone)]
struct ActivityClock {
    start: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Default for ActivityClock {
    fn default() -> Self {
        Self { start: Instant::now(), last_ms: Arc::default() }
    }
}

impl ActivityClock {
    fn note(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    /// Returns when no byte came from either side for this long.
    async fn silence(&self, limit: Duration) {
        loop {
            let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            match (last + limit).checked_sub(self.start.elapsed()) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
                _ => return,
            }
        }
    }
}

/// A stream that notes on the clock when bytes are read.
struct TimedStream<I> {
    io: I,
    clock: ActivityClock,
}

impl<I: AsyncRead + Unpin> AsyncRead for TimedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let poll = Pin::new(&mut self.io).poll_read(context, buffer);
        // An end or an error counts too: the copy ends then, and the clock no longer matters.
        if poll.is_ready() {
            self.clock.note();
        }
        poll
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for TimedStream<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
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

    use super::*;

    #[tokio::test]
    async fn w22_a_silent_tunnel_ends_and_one_in_use_does_not() {
        let (client, mut near) = tokio::io::duplex(64);
        let (sandbox, mut far) = tokio::io::duplex(64);
        let tunnel = tokio::spawn(exchange(client, sandbox, Duration::from_millis(300)));
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            near.write_all(b"x").await.unwrap();
            assert_eq!(far.read_u8().await.unwrap(), b'x');
        }
        tokio::time::timeout(Duration::from_secs(5), tunnel).await.unwrap().unwrap();
        assert_eq!(far.read(&mut [0; 1]).await.unwrap(), 0);
    }
}
