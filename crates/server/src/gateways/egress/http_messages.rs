//! What both kinds of HTTP have in common, proxy requests and requests in a tunnel: bounds, headers of one connection, refusals.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::EgressRefusal;
use super::policy::EgressTarget;

/// Longest head of a request.
pub(super) const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Longest wait for the whole head of a request, also of the next one on a connection that is kept.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Turns a request for a proxy or with a foreign form into one for the server itself.
pub(super) fn to_origin_form(
    request: &mut Request<Incoming>,
    target: &EgressTarget,
) -> Result<(), EgressRefusal> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| EgressRefusal::NotAProxyRequest)?;
    // A forwarded `Transfer-Encoding` or `Connection` could let the sandbox smuggle a second request.
    drop_hop_by_hop(request.headers_mut());
    let host = if target.port == 80 { target.host.clone() } else { target.to_string() };
    let host = HeaderValue::from_str(&host).map_err(|_| EgressRefusal::NotAProxyRequest)?;
    request.headers_mut().insert(HOST, host);
    Ok(())
}

/// Removes the headers of a single connection, and those that `Connection` lists (RFC 9110, section 7.6.1).
pub(super) fn drop_hop_by_hop(headers: &mut HeaderMap) {
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

pub(super) fn refuse(refusal: &EgressRefusal) -> Response<Body> {
    let status = match refusal {
        EgressRefusal::NotAProxyRequest | EgressRefusal::Host(_) => StatusCode::BAD_REQUEST,
        EgressRefusal::Denied(_)
        | EgressRefusal::Private
        | EgressRefusal::OtherName { .. }
        | EgressRefusal::UnknownHost => StatusCode::FORBIDDEN,
        EgressRefusal::Connections | EgressRefusal::Bytes => StatusCode::TOO_MANY_REQUESTS,
        EgressRefusal::Unrecorded => StatusCode::SERVICE_UNAVAILABLE,
        EgressRefusal::Unresolved | EgressRefusal::Unreachable | EgressRefusal::Upstream => {
            StatusCode::BAD_GATEWAY
        }
    };
    let mut response = Response::new(Body::from(format!("sandyard: {refusal}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
