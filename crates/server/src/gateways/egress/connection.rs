//! An open connection out of the sandbox: counts bytes, ends when idle, and holds TLS to the allowed name.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::policy::EgressTarget;
use super::server_name::{Greeting, MAX_HELLO_BYTES, greeting};
use super::{AttemptOutcome, EgressAttempt, EgressRefusal};

/// A connection without traffic ends after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest wait for the client's first bytes. If there are none, the server may be the one that speaks first.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

/// One connection. Dropping it reports its bytes.
#[derive(Debug)]
pub(super) struct EgressConnection {
    stream: TcpStream,
    target: EgressTarget,
    sent: u64,
    received: u64,
    /// Bytes in both directions, for the idle timeout.
    moved: Arc<AtomicU64>,
    bytes_left: Arc<AtomicU64>,
    attempts: mpsc::Sender<EgressAttempt>,
    _permit: OwnedSemaphorePermit,
}

impl EgressConnection {
    pub(super) fn new(
        stream: TcpStream,
        target: EgressTarget,
        permit: OwnedSemaphorePermit,
        bytes_left: Arc<AtomicU64>,
        attempts: mpsc::Sender<EgressAttempt>,
    ) -> Self {
        // Without it small messages are delayed; a failure costs only latency.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            target,
            sent: 0,
            received: 0,
            moved: Arc::default(),
            bytes_left,
            attempts,
            _permit: permit,
        }
    }

    /// Carries bytes in both directions until both sides are done or the connection is idle.
    pub(super) async fn carry(mut self, mut client: impl AsyncRead + AsyncWrite + Unpin) {
        // Before any byte reaches the server: a tunnel for one name must not carry a handshake for another.
        if self.check_greeting(&mut client).await.is_err() {
            return;
        }
        let moved = Arc::clone(&self.moved);
        tokio::select! {
            // A failure of either side ends both. The copy ends by itself; `stalled` only wakes to compare counts, so it
            // starves nothing.
            _ = tokio::io::copy_bidirectional(&mut client, &mut self) => {}
            () = stalled(&moved) => {}
        }
    }

    /// Checks the client's first bytes and sends them on. A TLS client must ask for the name that the policy allowed.
    async fn check_greeting(&mut self, client: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        let mut first = Vec::with_capacity(1024);
        let deadline = tokio::time::Instant::now() + GREETING_TIMEOUT;
        loop {
            // All bytes are judged again each time: the hello may arrive in any pieces, and there are at most 16 KiB.
            let known = greeting(&first);
            match known {
                Greeting::Tls(Some(name)) if name == self.target.host => break,
                Greeting::Tls(name) => {
                    let asked = name.unwrap_or_else(|| "no name".to_owned());
                    let refusal = EgressRefusal::OtherName { allowed: self.target.host.clone(), asked };
                    self.report(AttemptOutcome::Refused(refusal)).await;
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                Greeting::Other => break,
                Greeting::Unfinished if first.len() >= MAX_HELLO_BYTES => break,
                Greeting::Unfinished => {}
            }
            match tokio::time::timeout_at(deadline, client.read_buf(&mut first)).await {
                Ok(Ok(0)) => break,
                Ok(read) => drop(read?),
                // Without any bytes the server may be the one that speaks first (SMTP, SSH), so the tunnel opens unchecked.
                // Half a greeting is an error: the rest would pass unchecked.
                Err(_) if first.is_empty() => break,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        self.count(first.len(), 0)?;
        self.stream.write_all(&first).await
    }

    /// Counts bytes. Fails once the job has used up its limit.
    fn count(&mut self, sent: usize, received: usize) -> io::Result<()> {
        self.sent += sent as u64;
        self.received += received as u64;
        let count = (sent + received) as u64;
        self.moved.fetch_add(count, Ordering::Relaxed);
        // One atomic step for all connections of the job: together they can't exceed the limit by more than one read each.
        let take = |left: u64| Some(left.saturating_sub(count));
        match self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(before) if before >= count => Ok(()),
            _ => Err(io::ErrorKind::QuotaExceeded.into()),
        }
    }

    async fn report(&self, outcome: AttemptOutcome) {
        // The receiver is gone once the job is over.
        let _ = self.attempts.send(EgressAttempt { target: self.target.to_string(), outcome }).await;
    }
}

/// Returns when no byte has moved for [`IDLE_TIMEOUT`].
async fn stalled(moved: &AtomicU64) {
    loop {
        let before = moved.load(Ordering::Relaxed);
        tokio::time::sleep(IDLE_TIMEOUT).await;
        if moved.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

impl Drop for EgressConnection {
    fn drop(&mut self) {
        let outcome = AttemptOutcome::Closed { sent: self.sent, received: self.received };
        // If the channel is full, this report is lost; the attempt itself is recorded.
        let _ = self.attempts.try_send(EgressAttempt { target: self.target.to_string(), outcome });
    }
}

impl AsyncRead for EgressConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let count = buffer.filled().len() - before;
        Poll::Ready(self.count(0, count))
    }
}

impl AsyncWrite for EgressConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        Poll::Ready(self.count(count, 0).map(|()| count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
