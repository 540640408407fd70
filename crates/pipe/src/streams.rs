//! Many streams over one connection: yamux, driven by a task that the `Link` owns.
//!
//! The task ends, and every stream with it, when the connection fails, `close` is called or the last handle of the
//! link is dropped. Queues are bounded: streams that a peer opens faster than they are accepted are reset.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Any duplex byte stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Duplex for T {}

/// One stream of a link; dropping it resets it.
pub type PipeStream = Compat<yamux::Stream>;

/// The link has ended, and all its streams with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the link is gone")]
pub struct LinkClosed;

/// Streams of both directions together; enough for a console, an agent and a dozen viewers of one sandbox.
const MAX_STREAMS: usize = 512;
/// Streams that the peer opened and nobody has accepted yet.
const MAX_WAITING_STREAMS: usize = 64;
/// Bytes in one yamux frame. Each frame costs two writes to the connection, and pixels and exports come in pieces of this size.
const SEND_FRAME_BYTES: usize = 64 * 1024;
/// Receive windows of all streams together: the most memory that a hostile guest can make the host buffer.
const RECEIVE_WINDOW_BYTES: usize = 256 * 1024 * MAX_STREAMS;

/// A handle to one authenticated connection; clones share it.
#[derive(Debug, Clone)]
pub struct Link(Arc<LinkState>);

#[derive(Debug)]
struct LinkState {
    generation: u32,
    open: mpsc::Sender<oneshot::Sender<PipeStream>>,
    inbound: Mutex<mpsc::Receiver<PipeStream>>,
    gone: CancellationToken,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl Link {
    /// Starts yamux over a stream on which the hello is complete.
    pub(crate) fn over(stream: impl Duplex, mode: yamux::Mode, generation: u32) -> Self {
        let mut config = yamux::Config::default();
        config.set_max_num_streams(MAX_STREAMS);
        config.set_split_send_size(SEND_FRAME_BYTES);
        config.set_max_connection_receive_window(Some(RECEIVE_WINDOW_BYTES));
        let connection = yamux::Connection::new(stream.compat(), config, mode);
        let (open, open_requests) = mpsc::channel(MAX_WAITING_STREAMS);
        let (inbound_sender, inbound) = mpsc::channel(MAX_WAITING_STREAMS);
        let stop = CancellationToken::new();
        let gone = CancellationToken::new();
        let driver = YamuxDriver { connection, open_requests, opening: None, inbound: inbound_sender };
        tokio::spawn(drive(driver, stop.clone(), gone.clone().drop_guard()));
        let guard = stop.clone().drop_guard();
        Self(Arc::new(LinkState {
            generation,
            open,
            inbound: Mutex::new(inbound),
            gone,
            stop,
            _stop_on_drop: guard,
        }))
    }

    /// The protocol generation that both sides agreed on. Messages that a later generation added must not be sent.
    pub fn generation(&self) -> u32 {
        self.0.generation
    }

    /// Opens a stream to the other side.
    pub async fn open(&self) -> Result<PipeStream, LinkClosed> {
        let (answer, opened) = oneshot::channel();
        self.0.open.send(answer).await.map_err(|_| LinkClosed)?;
        opened.await.map_err(|_| LinkClosed)
    }

    /// Waits for the next stream that the other side opens; `None` once the link has ended.
    pub async fn accept(&self) -> Option<PipeStream> {
        self.0.inbound.lock().await.recv().await
    }

    /// Waits until the link has ended.
    pub async fn closed(&self) {
        self.0.gone.cancelled().await;
    }

    /// True if the link has ended.
    pub fn is_closed(&self) -> bool {
        self.0.gone.is_cancelled()
    }

    /// Ends the connection and all its streams at once.
    pub fn close(&self) {
        self.0.stop.cancel();
    }
}

struct YamuxDriver<T> {
    connection: yamux::Connection<Compat<T>>,
    open_requests: mpsc::Receiver<oneshot::Sender<PipeStream>>,
    opening: Option<oneshot::Sender<PipeStream>>,
    inbound: mpsc::Sender<PipeStream>,
}

async fn drive<T: Duplex>(mut driver: YamuxDriver<T>, stop: CancellationToken, _gone: DropGuard) {
    // Either branch ends the link, so neither can starve the other. Dropping `driver` closes the connection and resets its streams;
    // dropping `_gone` then wakes everyone who waits in `closed`.
    tokio::select! {
        () = stop.cancelled() => {}
        () = poll_fn(|context| driver.poll(context)) => {}
    }
}

impl<T: Duplex> YamuxDriver<T> {
    /// Ready once the connection has ended.
    fn poll(&mut self, context: &mut std::task::Context<'_>) -> Poll<()> {
        loop {
            if self.poll_open(context).is_err() {
                return Poll::Ready(());
            }
            match self.connection.poll_next_inbound(context) {
                // A full queue means that nobody accepts: dropping the stream resets it.
                Poll::Ready(Some(Ok(stream))) => drop(self.inbound.try_send(stream.compat())),
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn poll_open(&mut self, context: &mut std::task::Context<'_>) -> yamux::Result<()> {
        loop {
            if self.opening.is_none() {
                match self.open_requests.poll_recv(context) {
                    Poll::Ready(Some(answer)) => self.opening = Some(answer),
                    Poll::Ready(None) | Poll::Pending => return Ok(()),
                }
            }
            match self.connection.poll_new_outbound(context) {
                Poll::Ready(Ok(stream)) => {
                    if let Some(answer) = self.opening.take() {
                        // If the caller is gone, the stream is dropped here and thereby reset.
                        drop(answer.send(stream.compat()));
                    }
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
