//! A tunnel whose client speaks HTTP without TLS. Each request is read whole, must name the host that the tunnel was opened
//! for, and is written anew: the server gets what this parser read, so no request hides in another. WebSockets pass.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::header::{CONNECTION, HOST, UPGRADE};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::http_messages::{HEAD_TIMEOUT, MAX_HEAD_BYTES, drop_hop_by_hop, refuse, to_origin_form};
use super::policy::EgressTarget;
use super::{EgressRefusal, EgressReporter, MAX_TARGET_BYTES};
use crate::audit::cut;

/// Serves the tunnel until either side ends it.
pub(super) async fn serve(
    reporter: EgressReporter,
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let mut builder = hyper::client::conn::http1::Builder::new();
    let handshake = builder.preserve_header_case(true).max_buf_size(MAX_HEAD_BYTES);
    let Ok((sender, upstream)) = handshake.handshake(TokioIo::new(connection)).await else { return };
    let (upgrades, mut upgraded) = mpsc::channel(1);
    let is_upgrading = Arc::<AtomicBool>::default();
    let server_ended = CancellationToken::new();
    let tunnel = HttpTunnel {
        reporter,
        sender: Mutex::new(sender),
        upgrades,
        is_upgrading: Arc::clone(&is_upgrading),
    };
    let serving = answer_requests(tunnel, client, server_ended.clone());
    let upstream = async move {
        let _ = upstream.with_upgrades().await;
        // A server that closes an idle connection closes the client's too. An upgrade ends here as well, but goes on.
        if !is_upgrading.load(Ordering::Relaxed) {
            server_ended.cancel();
        }
    };
    tokio::join!(serving, upstream);
    if let Some(Upgrades { client, server }) = upgraded.recv().await
        && let (Ok(client), Ok(server)) = tokio::join!(client, server)
    {
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        // A failure of either side ends both.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}

/// Answers the client's requests. When it returns, the sender is dropped, which ends the server's side.
async fn answer_requests(
    tunnel: HttpTunnel,
    client: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    server_ended: CancellationToken,
) {
    let tunnel = Arc::new(tunnel);
    let service = hyper::service::service_fn(move |request| {
        let tunnel = Arc::clone(&tunnel);
        async move { Ok::<_, Infallible>(tunnel.answer(request).await) }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades();
    let mut serving = pin!(serving);
    // The second branch only watches. A request in progress is answered to its end.
    tokio::select! {
        _ = serving.as_mut() => {}
        () = server_ended.cancelled() => {
            serving.as_mut().graceful_shutdown();
            let _ = serving.await;
        }
    }
}

/// Both sides of a connection that becomes a WebSocket.
struct Upgrades {
    client: OnUpgrade,
    server: OnUpgrade,
}

struct HttpTunnel {
    reporter: EgressReporter,
    sender: Mutex<SendRequest<Incoming>>,
    upgrades: mpsc::Sender<Upgrades>,
    is_upgrading: Arc<AtomicBool>,
}

impl HttpTunnel {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let answer = match other_host(&request, &self.reporter.target) {
            Some(asked) => {
                let allowed = self.reporter.target.host.clone();
                let refusal = EgressRefusal::OtherName { allowed, asked };
                self.reporter.refused(refusal.clone()).await;
                Err(refusal)
            }
            None => self.pass_on(request).await,
        };
        answer.unwrap_or_else(|refusal| {
            let mut refused = refuse(&refusal);
            // Bytes that follow a request which was not served must not be taken for another one.
            refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            refused
        })
    }

    async fn pass_on(&self, mut request: Request<Incoming>) -> Result<Response<Body>, EgressRefusal> {
        let client = is_websocket(request.headers()).then(|| hyper::upgrade::on(&mut request));
        self.is_upgrading.store(client.is_some(), Ordering::Relaxed);
        to_origin_form(&mut request, &self.reporter.target)?;
        if client.is_some() {
            announce_websocket(request.headers_mut());
        }
        let mut sender = self.sender.lock().await;
        sender.ready().await.map_err(EgressRefusal::upstream)?;
        let mut response = sender.send_request(request).await.map_err(EgressRefusal::upstream)?;
        drop_hop_by_hop(response.headers_mut());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // A 101 that nobody asked for would let the server choose what the client's next bytes mean.
            let client = client.ok_or(EgressRefusal::Upstream)?;
            let server = hyper::upgrade::on(&mut response);
            // There is room: a connection is upgraded once.
            let _ = self.upgrades.try_send(Upgrades { client, server });
            announce_websocket(response.headers_mut());
        }
        Ok(response.map(Body::new))
    }
}

/// The host that a request in a tunnel asks for, if it is another one than the tunnel's. A request without a host asks for none.
fn other_host(request: &Request<Incoming>, target: &EgressTarget) -> Option<String> {
    let hosts = request.headers().get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let named: Vec<&str> = hosts.chain(request.uri().authority().map(Authority::as_str)).collect();
    let own = |text: &&str| {
        let parsed = text.parse::<Authority>().ok().filter(|_| !text.contains('@'));
        parsed.is_some_and(|named| {
            EgressTarget::new(named.host(), named.port_u16().unwrap_or(target.port)).as_ref() == Ok(target)
        })
    };
    let two_hosts = request.headers().get_all(HOST).iter().count() > 1;
    // Servers that are proxies as well would open a tunnel within the tunnel.
    let is_other = two_hosts || request.method() == Method::CONNECT || !named.iter().all(own);
    is_other.then(|| cut(&named.join(", "), MAX_TARGET_BYTES))
}

fn is_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

fn announce_websocket(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}
