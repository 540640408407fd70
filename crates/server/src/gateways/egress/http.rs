//! The HTTP proxy: `CONNECT` for tunnels, absolute addresses for plain requests. hyper parses what the sandbox sends.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::policy::Target;
use super::{Gateway, Refusal};

/// A request's head; longer ones are refused.
const HEAD_BYTES: usize = 64 * 1024;
/// For the whole head of a request, and for the next one on a connection that is kept.
const HEAD_TIME: Duration = Duration::from_secs(60);

/// Serves one connection of the sandbox.
pub(super) async fn serve(
    gateway: &Arc<Gateway>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let owner = Arc::clone(gateway);
    let service = hyper::service::service_fn(move |request| {
        let gateway = Arc::clone(&owner);
        async move { Ok::<_, Infallible>(answer(&gateway, request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // How a sandbox ends its connections is its own affair.
    let _ = connection.await;
}

async fn answer(gateway: &Arc<Gateway>, request: Request<Incoming>) -> Response<Body> {
    let outcome = match target(request.method(), request.uri()) {
        Ok(target) if request.method() == Method::CONNECT => tunnel(gateway, request, target).await,
        Ok(target) => forward(gateway, request, target).await,
        Err(refusal) => Err(refusal),
    };
    outcome.unwrap_or_else(|refusal| refuse(&refusal))
}

fn target(method: &Method, uri: &Uri) -> Result<Target, Refusal> {
    let authority = uri.authority().ok_or(Refusal::NotAProxyRequest)?;
    if authority.as_str().contains('@') {
        return Err(Refusal::NotAProxyRequest);
    }
    let port = match (method, uri.scheme_str(), authority.port_u16()) {
        (&Method::CONNECT, None, Some(port)) => port,
        (&Method::CONNECT, ..) => return Err(Refusal::NotAProxyRequest),
        (_, Some("http"), port) => port.unwrap_or(80),
        _ => return Err(Refusal::NotAProxyRequest),
    };
    Ok(Target::new(authority.host(), port)?)
}

async fn tunnel(
    gateway: &Arc<Gateway>,
    request: Request<Incoming>,
    target: Target,
) -> Result<Response<Body>, Refusal> {
    let passage = gateway.reach(&target).await?;
    let upgrade = hyper::upgrade::on(request);
    gateway.tunnels.spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            passage.carry(TokioIo::new(upgraded)).await;
        }
    });
    Ok(Response::new(Body::empty()))
}

async fn forward(
    gateway: &Arc<Gateway>,
    mut request: Request<Incoming>,
    target: Target,
) -> Result<Response<Body>, Refusal> {
    same_host(request.headers(), &target)?;
    let passage = gateway.reach(&target).await?;
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| Refusal::NotAProxyRequest)?;
    drop_hop_by_hop(request.headers_mut());
    let host = if target.port == 80 { target.host.clone() } else { target.to_string() };
    request.headers_mut().insert(HOST, HeaderValue::from_str(&host).map_err(|_| Refusal::NotAProxyRequest)?);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(passage)).await.map_err(Refusal::upstream)?;
    // It ends with the response's body, or with the gateway.
    gateway.tunnels.spawn(async move {
        let _ = connection.await;
    });
    let mut response = sender.send_request(request).await.map_err(Refusal::upstream)?;
    drop_hop_by_hop(response.headers_mut());
    Ok(response.map(Body::new))
}

/// A request that names two hosts is about to be understood differently by two parties.
fn same_host(headers: &HeaderMap, target: &Target) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    let Some(host) = first else { return Ok(()) };
    let text = host.to_str().map_err(|_| Refusal::NotAProxyRequest)?;
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().map_err(|_| Refusal::NotAProxyRequest)?),
        None => (text, 80),
    };
    let named = Target::new(name, port)?;
    if second.is_some() || named != *target { Err(Refusal::NotAProxyRequest) } else { Ok(()) }
}

/// Headers that concern one connection only, and those that `Connection` nominates.
fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let nominated: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let fixed = ["proxy-connection", "proxy-authorization", "proxy-authenticate", "keep-alive"]
        .map(HeaderName::from_static);
    for name in
        nominated.into_iter().chain(fixed).chain([CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE])
    {
        headers.remove(name);
    }
}

fn refuse(refusal: &Refusal) -> Response<Body> {
    let status = match refusal {
        Refusal::NotAProxyRequest | Refusal::Host(_) => StatusCode::BAD_REQUEST,
        Refusal::Denied(_) | Refusal::Private | Refusal::OtherName { .. } => StatusCode::FORBIDDEN,
        Refusal::Connections | Refusal::Bytes => StatusCode::TOO_MANY_REQUESTS,
        Refusal::Unrecorded => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::Unresolved | Refusal::Unreachable | Refusal::Upstream => StatusCode::BAD_GATEWAY,
    };
    let mut response = Response::new(Body::from(format!("sandyard: {refusal}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
