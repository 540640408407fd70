//! One request to a port: a connection of its own over the machine's pipe, the answer streamed back.
//!
//! Bodies flow as fast as the slower side takes them and fail when nothing moves for too long. The connection ends with the
//! answer, or with the client, whichever is first.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use sandyard_protocol::GuestErrorCode;
use sandyard_sandbox::machine::{Machine, MachineError, PortStream};
use tokio_util::task::AbortOnDropHandle;

use super::headers::{HeaderFilter, PortAddress};
use super::lanes::Lane;
use super::tunnel;
use crate::auth::origins::JobOrigin;
use crate::http::HttpState;
use crate::http::request::idle::idle_limited;
use crate::http::response::held_body::HeldBody;
use crate::job::JobId;

/// Longest head of an answer; equal to the limit for requests.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 200;
/// Longest wait for the head of an answer: a long poll, or a heavy page.
const HEAD_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest pause within an answer: event streams send a keep-alive more often.
const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// The target of a request.
#[derive(Debug)]
pub(super) struct PortTarget<'a> {
    pub(super) job: &'a JobId,
    pub(super) port: u16,
    /// Path and query for the program on the port.
    pub(super) target: String,
    /// Where the client sees the port.
    pub(super) address: PortAddress,
    /// Longest wait for a program that starts; `None` waits as long as the machine does.
    pub(super) timeout: Option<Duration>,
}

/// Why the program on the port gave no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Too many connections to ports of this job.
    Busy,
    /// No program listens on the port.
    Nothing,
    /// The program there is being started.
    Starting,
    /// The program could not be started, with the guest's message.
    NotStarted(String),
    /// The machine can't be reached.
    Machine(MachineError),
    /// The program does not speak HTTP, or broke off.
    Malformed,
    /// The program did not answer in time.
    Late,
}

/// Passes a request on and the answer back.
pub(super) async fn forward(
    state: &HttpState,
    machine: &Machine,
    destination: PortTarget<'_>,
    mut request: Request,
) -> Result<Response, Unanswered> {
    // Before anything is opened in the sandbox: the bound protects the streams of the job's pipe.
    let lane = state.lanes().enter(destination.job).ok_or(Unanswered::Busy)?;
    let upgrade = is_websocket(&request).then(|| hyper::upgrade::on(&mut request));
    let stream = connect(machine, destination.port, destination.timeout).await?;
    let authorization = stream.authorization().map(str::to_owned);
    let origin = JobOrigin { job: destination.job.clone(), port: destination.port };
    let filter = HeaderFilter::new(state.access(), origin, destination.address, request.headers());
    // `authorization` is the guest's own token for services that keeper starts. The client's key never reaches the sandbox.
    let mut headers = filter.to_sandbox(request.headers(), authorization.as_deref());
    if upgrade.is_some() {
        announce_websocket(&mut headers);
    }
    let sent = outgoing(request, &destination.target, headers, state.limits().body_idle)?;
    let mut builder = http1::Builder::new();
    // The answer's head comes from the sandbox and is hostile.
    builder.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|_| broken(machine))?;
    let driver = AbortOnDropHandle::new(tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a port ended");
        }
    }));
    // Dropping the request, because the client went away, drops `driver` and with it the connection.
    let answer = tokio::time::timeout(HEAD_TIMEOUT, sender.send_request(sent)).await;
    let answer = answer.map_err(|_| Unanswered::Late)?.map_err(|_| broken(machine))?;
    let held = HeldConnection { _driver: driver, _lane: lane };
    match upgrade {
        Some(client) => Ok(upgraded(state, client, answer, held, &filter)),
        // A 101 that nobody asked for would desynchronise the client's connection.
        None if answer.status() == StatusCode::SWITCHING_PROTOCOLS => Err(Unanswered::Malformed),
        None => Ok(incoming(answer, held, &filter)),
    }
}

/// Why a connection ended without an answer.
fn broken(machine: &Machine) -> Unanswered {
    if machine.is_finishing() { Unanswered::Machine(MachineError::Finishing) } else { Unanswered::Malformed }
}

/// Connects to a port. A service that keeper starts on first use may take seconds.
pub(super) async fn connect(
    machine: &Machine,
    port: u16,
    timeout: Option<Duration>,
) -> Result<PortStream, Unanswered> {
    let connecting = machine.connect_port(port);
    let connected = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, connecting).await.map_err(|_| Unanswered::Starting)?,
        None => connecting.await,
    };
    connected.map_err(|error| match error {
        MachineError::Guest(error) if error.code == GuestErrorCode::ConnectionRefused => Unanswered::Nothing,
        MachineError::Guest(error) if error.code == GuestErrorCode::SpawnFailed => {
            Unanswered::NotStarted(error.message)
        }
        other => Unanswered::Machine(other),
    })
}

/// True if a request asks for a WebSocket. A request for any other upgrade is passed on as an ordinary request.
fn is_websocket(request: &Request) -> bool {
    let names = |name, token: &str| {
        let values = request.headers().get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
    };
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && names(CONNECTION, "upgrade")
        && names(UPGRADE, "websocket")
}

fn announce_websocket(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

fn outgoing(
    request: Request,
    target: &str,
    headers: HeaderMap,
    body_idle: Duration,
) -> Result<Request, Unanswered> {
    let (parts, body) = request.into_parts();
    let mut sent = Request::new(idle_limited(body, body_idle));
    *sent.method_mut() = parts.method;
    *sent.uri_mut() = target.parse::<Uri>().map_err(|_| Unanswered::Malformed)?;
    *sent.headers_mut() = headers;
    Ok(sent)
}

fn incoming(answer: hyper::Response<Incoming>, held: HeldConnection, filter: &HeaderFilter<'_>) -> Response {
    let (parts, body) = answer.into_parts();
    let body = HeldBody::body(idle_limited(Body::new(body), BODY_IDLE_TIMEOUT), held);
    let mut response = Response::new(body);
    *response.status_mut() = parts.status;
    *response.headers_mut() = filter.to_client(&parts.headers);
    response
}

/// No byte of either side passes before the 101 of the program. Any other answer ends the client's connection, so that bytes
/// which the client sent ahead are never taken for a request.
fn upgraded(
    state: &HttpState,
    client: OnUpgrade,
    mut answer: hyper::Response<Incoming>,
    held: HeldConnection,
    filter: &HeaderFilter<'_>,
) -> Response {
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let mut response = incoming(answer, held, filter);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    let sandbox = hyper::upgrade::on(&mut answer);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = filter.to_client(answer.headers());
    announce_websocket(response.headers_mut());
    let sandbox = async move { sandbox.await.map(TokioIo::new).map_err(std::io::Error::other) };
    tunnel::carry(client, sandbox, held, state.shutdown().clone());
    response
}

/// The resources of a connection in use.
pub(super) struct HeldConnection {
    _driver: AbortOnDropHandle<()>,
    _lane: Lane,
}
