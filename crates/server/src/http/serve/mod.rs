//! Connections: accepted, bounded, timed, and closed gracefully.
//!
//! One task for each connection, owned by a tracker. When the server stops, no more are taken, idle ones are
//! closed, requests under way have a grace time to end.

mod counters;
mod idle_io;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::idle_io::IdleWrites;
use super::gate::Gate;
use super::{HttpConfig, HttpState, service};

pub(super) use self::counters::HttpCounters;

/// Bounds on connections and times.
#[derive(Debug, Clone)]
pub struct ServeLimits {
    /// Connections at once; more wait in the kernel's queue.
    pub connections: usize,
    /// For the whole head of a request, and for the next request on an idle connection.
    pub head: Duration,
    /// For the next bytes of a request's body.
    pub body_idle: Duration,
    /// For the client to take the next bytes of an answer.
    pub write_idle: Duration,
    /// For requests under way when the server stops.
    pub grace: Duration,
}

impl Default for ServeLimits {
    /// Four thousand connections leave room below the usual limit of open files once it is raised.
    fn default() -> Self {
        Self {
            connections: 4096,
            head: Duration::from_secs(30),
            body_idle: Duration::from_secs(30),
            write_idle: Duration::from_secs(60),
            grace: Duration::from_secs(5),
        }
    }
}

/// Where connections come from.
trait Connections: Listener {
    /// Sets up a new connection.
    fn prepare(io: &Self::Io);
}

impl Connections for TcpListener {
    /// Events and terminal output are small and must not wait for an acknowledgement.
    fn prepare(io: &Self::Io) {
        if let Err(error) = io.set_nodelay(true) {
            tracing::debug!(%error, "a connection without TCP_NODELAY");
        }
    }
}

impl Connections for UnixListener {
    fn prepare(_: &Self::Io) {}
}

/// A head larger than this is refused: a 5,000-byte name in three encodings and a ticket fit, floods do not.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Serves a TCP address until `config.shutdown` is cancelled, then lets go of all connections and returns. Neither this function nor
/// the next is generic: a generic one would be compiled in the crate of its caller, which is not optimised for speed.
pub async fn serve_tcp(listener: TcpListener, config: HttpConfig) {
    serve(listener, config).await;
}

/// Serves a socket of this machine in the same way.
pub async fn serve_unix(listener: UnixListener, config: HttpConfig) {
    serve(listener, config).await;
}

async fn serve<L: Connections>(mut listener: L, config: HttpConfig) {
    let limits = config.limits.clone();
    let shutdown = config.shutdown.clone();
    let gate = service(HttpState::new(config));
    let room = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    loop {
        let taken = async {
            // Room before the accept: connections beyond the bound wait in the kernel's queue and cost no memory here.
            let permit = Arc::clone(&room).acquire_owned().await;
            (permit, listener.accept().await.0)
        };
        // A full server must still stop at once. Cancelling `taken` loses nothing that was accepted: accepting is its last step.
        let (permit, io) = tokio::select! {
            taken = taken => taken,
            () = shutdown.cancelled() => break,
        };
        L::prepare(&io);
        let connection = follow(io, gate.clone(), limits.clone(), shutdown.clone());
        connections.spawn(async move {
            connection.await;
            drop(permit);
        });
    }
    // Each connection has seen the same token and ends within the grace time.
    connections.close();
    connections.wait().await;
}

/// Serves one connection to its end.
async fn follow<I>(io: I, gate: Gate, limits: ServeLimits, shutdown: CancellationToken)
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let gate = gate.clone();
        async move { Ok::<_, Infallible>(gate.pass(request.map(Body::new)).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(IdleWrites::new(io, limits.write_idle)), service)
        .with_upgrades();
    tokio::pin!(connection);
    // Requests under way must not be cut by the stop: the second branch only asks the connection to end, and the timeout below
    // bounds the wait. The connection is pinned, so it continues after this block.
    tokio::select! {
        ended = connection.as_mut() => return note(ended),
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    if let Ok(ended) = tokio::time::timeout(limits.grace, connection).await {
        note(ended);
    }
}

fn note(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::trace!(%error, "connection ended");
    }
}
