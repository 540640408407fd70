//! An open connection to the world: metered, timed, and held to the name it was opened for.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::policy::Target;
use super::server_name::{GREETING_BYTES, Greeting, greeting};
use super::{Attempt, Outcome, Refusal};

/// A tunnel on which nothing moves for this long is given up.
const IDLE: Duration = Duration::from_secs(600);
/// For the first bytes of a tunnel; a protocol in which the server speaks first goes on without them.
const GREETING_TIME: Duration = Duration::from_secs(2);

/// One connection and its account.
#[derive(Debug)]
pub(super) struct Passage {
    stream: TcpStream,
    target: Target,
    sent: u64,
    received: u64,
    /// Both together, for whoever watches that something moves.
    moved: Arc<AtomicU64>,
    bytes_left: Arc<AtomicU64>,
    attempts: mpsc::Sender<Attempt>,
    _permit: OwnedSemaphorePermit,
}

impl Passage {
    pub(super) fn new(
        stream: TcpStream,
        target: Target,
        permit: OwnedSemaphorePermit,
        bytes_left: Arc<AtomicU64>,
        attempts: mpsc::Sender<Attempt>,
    ) -> Self {
        // Small messages both ways; a failure costs only latency.
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

    /// Carries bytes both ways until both sides are done or nothing moves for long.
    pub(super) async fn carry(mut self, mut client: impl AsyncRead + AsyncWrite + Unpin) {
        if self.introduce(&mut client).await.is_err() {
            return;
        }
        let moved = Arc::clone(&self.moved);
        tokio::select! {
            // Either side's failure is the end of both.
            _ = tokio::io::copy_bidirectional(&mut client, &mut self) => {}
            () = stalled(&moved) => {}
        }
    }

    /// Looks at the first bytes: TLS must ask for the very name that the policy allowed.
    async fn introduce(&mut self, client: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        let mut first = Vec::with_capacity(1024);
        let deadline = tokio::time::Instant::now() + GREETING_TIME;
        loop {
            let known = greeting(&first);
            match known {
                Greeting::Tls(Some(name)) if name == self.target.host => break,
                Greeting::Tls(name) => {
                    let asked = name.unwrap_or_else(|| "no name".to_owned());
                    let refusal = Refusal::OtherName { allowed: self.target.host.clone(), asked };
                    self.tell(Outcome::Refused(refusal)).await;
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                Greeting::Other => break,
                Greeting::Unfinished if first.len() >= GREETING_BYTES => break,
                Greeting::Unfinished => {}
            }
            match tokio::time::timeout_at(deadline, client.read_buf(&mut first)).await {
                Ok(Ok(0)) => break,
                Ok(read) => drop(read?),
                // The server may be the one that speaks first; half a greeting is not waited for.
                Err(_) if first.is_empty() => break,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        self.account(first.len(), 0)?;
        self.stream.write_all(&first).await
    }

    /// Counts bytes; an error once the job has used up its own.
    fn account(&mut self, sent: usize, received: usize) -> io::Result<()> {
        self.sent += sent as u64;
        self.received += received as u64;
        let count = (sent + received) as u64;
        self.moved.fetch_add(count, Ordering::Relaxed);
        let take = |left: u64| Some(left.saturating_sub(count));
        match self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(before) if before >= count => Ok(()),
            _ => Err(io::ErrorKind::QuotaExceeded.into()),
        }
    }

    async fn tell(&self, outcome: Outcome) {
        // Nobody listens once the job is over.
        let _ = self.attempts.send(Attempt { target: self.target.to_string(), outcome }).await;
    }
}

/// Returns once nothing has moved for `IDLE`.
async fn stalled(moved: &AtomicU64) {
    loop {
        let before = moved.load(Ordering::Relaxed);
        tokio::time::sleep(IDLE).await;
        if moved.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let outcome = Outcome::Closed { sent: self.sent, received: self.received };
        // A record so full that this is lost has the attempt itself.
        let _ = self.attempts.try_send(Attempt { target: self.target.to_string(), outcome });
    }
}

impl AsyncRead for Passage {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let count = buffer.filled().len() - before;
        Poll::Ready(self.account(0, count))
    }
}

impl AsyncWrite for Passage {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        Poll::Ready(self.account(count, 0).map(|()| count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
