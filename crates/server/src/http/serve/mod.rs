//! Connections: accepted, bounded, timed, and closed gracefully.
//!
//! One task for each connection, owned by a tracker. `crowd` decides who has a place, `watched_io` notices clients that take
//! nothing. When the server stops, no more are taken, idle ones are closed, requests under way have a grace time to end.

mod crowd;
mod listeners;
mod turns;
mod watched_io;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::FutureExt;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use sandyard_api::{ApiError, ErrorCode};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::crowd::{Crowd, CrowdMember, CrowdPlace, PeerNetwork};
use self::listeners::Connections;
use self::turns::{TurnBody, end_of_answer};
use self::watched_io::WatchedIo;
use super::gate::Gate;
use super::request::room::BodyBudget;
use super::response::held_body::HeldBody;
use super::service::service;
use super::{HttpConfig, HttpState, ServeLimits, openapi};

/// A head larger than this is refused: a 5,000-byte name in three encodings and a ticket fit, floods do not.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Delay between two looks for answers that stall.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Freed memory from here on is returned to the system.
const TRIM_BYTES: usize = 16 * 1024 * 1024;
/// Pause after a connection that could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// The answer to a connection without a place, which is not read.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Serves a TCP address until `config.shutdown` is cancelled, then lets go of all connections and returns. Neither this function nor
/// the next is generic: a generic one would be compiled in the crate of its caller, which is not optimised for speed.
pub async fn serve_tcp(listener: TcpListener, config: HttpConfig) {
    serve(listener, config).await;
}

/// Serves a socket of this machine in the same way. It has a crowd and budgets of its own, so strangers can't take the place of
/// the operator.
pub async fn serve_unix(listener: UnixListener, config: HttpConfig) {
    serve(listener, config).await;
}

async fn serve<L: Connections>(mut listener: L, config: HttpConfig) {
    let limits = config.limits.clone();
    let shutdown = config.shutdown.clone();
    let server =
        ConnectionServer { gate: service(HttpState::new(config, openapi::document)), limits, shutdown };
    let crowd = Crowd::new(&server.limits);
    let connections = TaskTracker::new();
    let mut tide = MemoryTide::default();
    let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // A server under any load must still sweep and stop. Cancelling the accept loses nothing: it is its own last step.
        tokio::select! {
            taken = listener.take() => match taken {
                Ok((io, peer)) => match crowd.enter(PeerNetwork::of(peer)) {
                    Some(member) => drop(connections.spawn(server.clone().follow(io, member))),
                    None => turn_away(io),
                },
                Err(error) => accept_failed(&crowd, &error).await,
            },
            _ = sweep.tick() => {
                crowd.relieve();
                server.gate.state().counters().count_closed(crowd.take_dismissed());
                tide.note(&crowd, server.gate.state().bodies().budget());
            }
            () = server.shutdown.cancelled() => break,
        }
    }
    // Each connection has seen the same token and ends within the grace time.
    connections.close();
    connections.wait().await;
}

/// Closes a connection with an answer, if the kernel takes it at once.
fn turn_away(mut io: impl tokio::io::AsyncWrite + Unpin) {
    let _ = io.write(NO_PLACE).now_or_never();
}

/// A process without free descriptors lets go of idle connections. Other failures concern one connection.
async fn accept_failed(crowd: &Crowd, error: &std::io::Error) {
    if crate::disk::is_out_of_files(error) {
        let freed = crowd.free_descriptors();
        tracing::warn!(freed, "no descriptor for a new connection: raise the limit of open files");
        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
    } else {
        tracing::debug!(%error, "a connection was not accepted");
    }
}

/// How far memory for bodies and answers has risen since it was last returned to the system.
#[derive(Debug, Default)]
struct MemoryTide {
    peak_bytes: usize,
}

impl MemoryTide {
    /// Returns free memory to the system once most of a high tide is over.
    fn note(&mut self, crowd: &Crowd, bodies: &BodyBudget) {
        let peak = crowd.take_peak_unwritten_bytes() + bodies.take_peak_bytes();
        self.peak_bytes = self.peak_bytes.max(peak);
        let now = crowd.unwritten_bytes() + bodies.held_bytes();
        if self.peak_bytes >= TRIM_BYTES && now <= self.peak_bytes / 4 {
            self.peak_bytes = now;
            drop(tokio::task::spawn_blocking(crate::memory::return_free_memory));
        }
    }
}

/// What all connections of a listener share.
#[derive(Clone)]
struct ConnectionServer {
    gate: Gate,
    limits: ServeLimits,
    shutdown: CancellationToken,
}

impl ConnectionServer {
    /// Serves one connection to its end.
    async fn follow<I>(self, io: I, member: Arc<CrowdMember>)
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let Self { gate, limits, shutdown } = self;
        let io = WatchedIo::new(io, limits.write_idle, Arc::clone(&member));
        let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            member.take_over();
            let (member, gate) = (Arc::clone(&member), gate.clone());
            async move {
                let request = request.map(|body| TurnBody::body(body, &member));
                let response = match refusal(&gate, &member, &request) {
                    Some(refusal) => refusal,
                    None => gate.pass(request).await,
                };
                // An upgraded connection is in use until it ends.
                let used_on = response.status() == StatusCode::SWITCHING_PROTOCOLS;
                let end = (!used_on).then(|| end_of_answer(member));
                Ok::<_, Infallible>(response.map(|body| HeldBody::new(body, end)))
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades();
        tokio::pin!(connection);
        // Requests under way must not be cut by the stop: the second branch only asks the connection to end, and the timeout
        // below bounds the wait. The connection is pinned, so it continues after this block.
        tokio::select! {
            ended = connection.as_mut() => return note(ended),
            () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        if let Ok(ended) = tokio::time::timeout(limits.grace, connection).await {
            note(ended);
        }
    }
}

/// Refuses all but health where only a reserved place was left.
fn refusal(gate: &Gate, member: &CrowdMember, request: &Request) -> Option<Response> {
    if member.place == CrowdPlace::Ordinary || matches!(request.uri().path(), "/healthz" | "/readyz") {
        return None;
    }
    let error = ApiError::new(ErrorCode::Overloaded, "too many connections are open")
        .with_hint("close some, or try again in a moment; the operator's socket has places of its own")
        .with_retry_after_s(1);
    let mut response = gate.refuse(error.into());
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Some(response)
}

fn note(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::trace!(%error, "connection ended");
    }
}
