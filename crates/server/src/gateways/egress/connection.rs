//! An open connection out of the sandbox: counts bytes, ends when idle, and holds its client to the allowed name.
//!
//! The client's first bytes are judged whenever they come, and none of them reaches the server before: a TLS hello must name
//! the allowed host; requests of HTTP are served by `http_tunnel`, which reads the host of each. The server may speak meanwhile.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::greeting::{Greeting, greeting};
use super::policy::EgressTarget;
use super::{AttemptOutcome, EgressRefusal, EgressReporter, http_tunnel};

/// A connection without traffic ends after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Beginnings of a line that may still become a request of HTTP are held back this long. Afterwards they are passed on, since
/// another protocol may wait for an answer to them; a request of HTTP that is sent so slowly is refused.
const LINE_PAUSE: Duration = Duration::from_millis(200);
/// Bytes of a server that are read at once while its client is silent.
const BUFFER_BYTES: usize = 8 * 1024;
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// One connection. Dropping it reports its bytes.
#[derive(Debug)]
pub(super) struct EgressConnection {
    stream: TcpStream,
    sent: u64,
    received: u64,
    /// Bytes in both directions, for the idle timeout.
    moved: Arc<AtomicU64>,
    bytes_left: Arc<AtomicU64>,
    reporter: EgressReporter,
    _permit: OwnedSemaphorePermit,
}

/// How a client began.
enum Opening {
    /// Bytes that are passed on unread from now on.
    Bytes,
    /// A request of HTTP, of which these bytes have arrived.
    Http(Vec<u8>),
}

/// The decision about a client's first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// More bytes are needed.
    Wait,
    /// The bytes are passed on, and all that follow.
    Pass,
    /// Requests of HTTP, whose host is still to be read.
    Http,
    Refuse(EgressRefusal),
}

/// Judges the first bytes of a client. `begun` is true if the server has some of them already, `ended` if no more will come.
fn verdict(EgressTarget { host, port }: &EgressTarget, first: &[u8], begun: bool, ended: bool) -> Verdict {
    // All bytes are judged again each time: a greeting may arrive in any pieces, and has at most 16 KiB.
    match greeting(first) {
        Greeting::Tls(Some(name)) if name == *host => Verdict::Pass,
        Greeting::Tls(name) => {
            let asked = name.unwrap_or_else(|| "no name".to_owned());
            Verdict::Refuse(EgressRefusal::OtherName { allowed: host.clone(), asked })
        }
        Greeting::Unfinished | Greeting::UnfinishedTls if !ended => Verdict::Wait,
        // Half a hello asks for nothing that is known.
        Greeting::UnfinishedTls => Verdict::Refuse(EgressRefusal::UnknownHost),
        Greeting::Http if !begun => Verdict::Http,
        Greeting::Http => Verdict::Refuse(EgressRefusal::UnknownHost),
        Greeting::Http2 if matches!(*port, HTTP_PORT | HTTPS_PORT) => {
            Verdict::Refuse(EgressRefusal::UnknownHost)
        }
        // Every server on this port speaks HTTP, and some of them understand more of it than we do.
        Greeting::Other | Greeting::Unfinished if *port == HTTP_PORT && !first.is_empty() => {
            Verdict::Refuse(EgressRefusal::UnknownHost)
        }
        Greeting::Other | Greeting::Http2 | Greeting::Unfinished => Verdict::Pass,
    }
}

impl EgressConnection {
    pub(super) fn new(
        stream: TcpStream,
        reporter: EgressReporter,
        permit: OwnedSemaphorePermit,
        bytes_left: Arc<AtomicU64>,
    ) -> Self {
        // Without it small messages are delayed; a failure costs only latency.
        let _ = stream.set_nodelay(true);
        Self { stream, sent: 0, received: 0, moved: Arc::default(), bytes_left, reporter, _permit: permit }
    }

    /// Carries bytes in both directions until both sides are done or the connection is idle.
    pub(super) async fn carry(self, client: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let moved = Arc::clone(&self.moved);
        tokio::select! {
            // The exchange ends by itself; `stalled` only wakes to compare counts, so it starves nothing.
            () = self.exchange(client) => {}
            () = stalled(&moved) => {}
        }
    }

    async fn exchange(mut self, mut client: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        match self.open(&mut client).await {
            // A failure of either side ends both.
            Ok(Opening::Bytes) => drop(tokio::io::copy_bidirectional(&mut client, &mut self).await),
            Ok(Opening::Http(first)) => {
                let (read, write) = tokio::io::split(client);
                let whole = tokio::io::join(io::Cursor::new(first).chain(read), write);
                http_tunnel::serve(self.reporter.clone(), self, Box::pin(whole)).await;
            }
            Err(_) => {}
        }
    }

    /// Waits for the client's first bytes and judges them, while the server's bytes flow. An error ends the connection.
    async fn open(&mut self, client: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<Opening> {
        let (mut from_client, mut to_client) = tokio::io::split(client);
        let mut first = Vec::with_capacity(1024);
        let mut passed_on = 0;
        let mut buffer = [0; BUFFER_BYTES];
        let mut server_ended = false;
        loop {
            let (held, may_pass) = (first.len() > passed_on, self.may_pass_unfinished(&first));
            tokio::select! {
                read = from_client.read_buf(&mut first) => {
                    let ended = read? == 0;
                    if let Some(opening) = self.judge(&mut first, passed_on, ended).await? {
                        return Ok(opening);
                    }
                }
                // Servers of SMTP and SSH speak first. Cancelling loses nothing: bytes are taken only when the branch is chosen.
                read = self.read(&mut buffer), if !server_ended => match read? {
                    0 => {
                        server_ended = true;
                        to_client.shutdown().await?;
                    }
                    count => to_client.write_all(&buffer[..count]).await?,
                },
                () = tokio::time::sleep(LINE_PAUSE), if held && may_pass => {
                    self.write_all(&first[passed_on..]).await?;
                    passed_on = first.len();
                }
            }
        }
    }

    /// True if these bytes may reach the server before it is known what they are: nothing of TLS, and on the port of HTTP
    /// nothing at all.
    fn may_pass_unfinished(&self, first: &[u8]) -> bool {
        self.reporter.target.port != HTTP_PORT && greeting(first) == Greeting::Unfinished
    }

    /// Judges the first bytes, of which some may have been passed on. `None` if more are needed.
    async fn judge(
        &mut self,
        first: &mut Vec<u8>,
        passed_on: usize,
        ended: bool,
    ) -> io::Result<Option<Opening>> {
        match verdict(&self.reporter.target, first, passed_on > 0, ended) {
            Verdict::Wait => Ok(None),
            Verdict::Http => Ok(Some(Opening::Http(std::mem::take(first)))),
            Verdict::Pass => {
                self.write_all(&first[passed_on..]).await?;
                Ok(Some(Opening::Bytes))
            }
            Verdict::Refuse(refusal) => {
                self.reporter.refused(refusal).await;
                Err(io::ErrorKind::PermissionDenied.into())
            }
        }
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
        let closed = AttemptOutcome::Closed { sent: self.sent, received: self.received };
        // If the channel is full, this report is lost; the attempt itself is recorded.
        let _ = self.reporter.attempts.try_send(self.reporter.attempt(closed));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n2_what_names_no_host_is_refused_where_servers_have_many() {
        let unknown = || Verdict::Refuse(EgressRefusal::UnknownHost);
        let judged = |port, first: &[u8], begun, ended| {
            verdict(&EgressTarget::new("host.example", port).unwrap(), first, begun, ended)
        };
        for (bytes, on_80, on_443, on_22) in [
            (&b"SSH-2.0-x\r\n"[..], unknown(), Verdict::Pass, Verdict::Pass),
            (b"PRI * HTTP/2.0\r\n", unknown(), unknown(), Verdict::Pass),
            (b"GET / HTTP/1.1\r\n", Verdict::Http, Verdict::Http, Verdict::Http),
            (b"GET /\r\n", unknown(), Verdict::Pass, Verdict::Pass),
            (b" GET / HTTP/1.1\r\n", unknown(), Verdict::Pass, Verdict::Pass),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n", unknown(), Verdict::Pass, Verdict::Pass),
            (b"GET", Verdict::Wait, Verdict::Wait, Verdict::Wait),
            (b"\x16\x03", Verdict::Wait, Verdict::Wait, Verdict::Wait),
            (b"", Verdict::Wait, Verdict::Wait, Verdict::Wait),
        ] {
            let found = [80, 443, 22].map(|port| judged(port, bytes, false, false));
            assert_eq!(found, [on_80, on_443, on_22], "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(judged(22, b"GET / HTTP/1.1\r\n", true, false), unknown(), "the server has a part of it");
        assert_eq!(judged(22, b"\x16\x03", false, true), unknown(), "half a hello");
        assert_eq!([80, 22].map(|port| judged(port, b"", false, true)), [Verdict::Pass, Verdict::Pass]);
        assert_eq!([80, 22].map(|port| judged(port, b"hi", false, true)), [unknown(), Verdict::Pass]);
    }
}
