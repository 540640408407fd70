//! The HTTP proxy: `CONNECT` for tunnels, absolute URLs for plain requests. hyper parses the requests.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::http_messages::{HEAD_TIMEOUT, MAX_HEAD_BYTES, drop_hop_by_hop, refuse, to_origin_form};
use super::policy::EgressTarget;
use super::{EgressGateway, EgressRefusal};

/// Serves one connection of the sandbox.
pub(super) async fn serve(
    gateway: &Arc<EgressGateway>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let owner = Arc::clone(gateway);
    let service = hyper::service::service_fn(move |request| {
        let gateway = Arc::clone(&owner);
        async move { Ok::<_, Infallible>(answer(&gateway, request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // An error only means that the sandbox ended its connection early.
    let _ = connection.await;
}

async fn answer(gateway: &Arc<EgressGateway>, request: Request<Incoming>) -> Response<Body> {
    let outcome = match target(request.method(), request.uri()) {
        Ok(target) if request.method() == Method::CONNECT => tunnel(gateway, request, target).await,
        Ok(target) => forward(gateway, request, target).await,
        Err(refusal) => Err(match request.uri().authority() {
            Some(named) => gateway.refuse(&with_port(named), refusal).await,
            // Not for a proxy: no other host is named.
            None => refusal,
        }),
    };
    outcome.unwrap_or_else(|refusal| refuse(&refusal))
}

/// Host and port as a request names them, for the record.
fn with_port(authority: &Authority) -> String {
    format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80))
}

fn target(method: &Method, uri: &Uri) -> Result<EgressTarget, EgressRefusal> {
    let authority = uri.authority().ok_or(EgressRefusal::NotAProxyRequest)?;
    // `user@host` is read differently by different parsers, so the checked name might not be the one that is connected to.
    if authority.as_str().contains('@') {
        return Err(EgressRefusal::NotAProxyRequest);
    }
    let port = match (method, uri.scheme_str(), authority.port_u16()) {
        (&Method::CONNECT, None, Some(port)) => port,
        (&Method::CONNECT, ..) => return Err(EgressRefusal::NotAProxyRequest),
        (_, Some("http"), port) => port.unwrap_or(80),
        _ => return Err(EgressRefusal::NotAProxyRequest),
    };
    Ok(EgressTarget::new(authority.host(), port)?)
}

async fn tunnel(
    gateway: &Arc<EgressGateway>,
    request: Request<Incoming>,
    target: EgressTarget,
) -> Result<Response<Body>, EgressRefusal> {
    let connection = gateway.reach(&target).await?;
    // After the check: a refused CONNECT gets an ordinary answer, and the stream is never upgraded.
    let upgrade = hyper::upgrade::on(request);
    gateway.tunnels.spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            connection.carry(TokioIo::new(upgraded)).await;
        }
    });
    Ok(Response::new(Body::empty()))
}

async fn forward(
    gateway: &Arc<EgressGateway>,
    mut request: Request<Incoming>,
    target: EgressTarget,
) -> Result<Response<Body>, EgressRefusal> {
    // Before the connection: a `Host` header for another site would reach a name that the policy never saw.
    if let Err(refusal) = same_host(request.headers(), &target) {
        return Err(gateway.refuse(&target.to_string(), refusal).await);
    }
    let connection = gateway.reach(&target).await?;
    to_origin_form(&mut request, &target)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(connection))
        .await
        .map_err(EgressRefusal::upstream)?;
    // The task ends with the response's body, or with the gateway.
    gateway.tunnels.spawn(async move {
        let _ = connection.await;
    });
    let mut response = sender.send_request(request).await.map_err(EgressRefusal::upstream)?;
    drop_hop_by_hop(response.headers_mut());
    Ok(response.map(Body::new))
}

/// Rejects a request whose `Host` differs from its URL: proxy and server could read it differently.
fn same_host(headers: &HeaderMap, target: &EgressTarget) -> Result<(), EgressRefusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    let Some(host) = first else { return Ok(()) };
    let text = host.to_str().map_err(|_| EgressRefusal::NotAProxyRequest)?;
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().map_err(|_| EgressRefusal::NotAProxyRequest)?),
        None => (text, 80),
    };
    let named = EgressTarget::new(name, port)?;
    if second.is_some() || named != *target { Err(EgressRefusal::NotAProxyRequest) } else { Ok(()) }
}
