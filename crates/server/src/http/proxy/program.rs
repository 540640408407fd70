//! `/jobs/{id}/proxy/{port}/…`: a port for programs, below the API. Browsers are refused: here a page would be of the API's
//! own origin.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, HOST, LOCATION, ORIGIN, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use sandyard_api::{ApiError, ErrorBody, ErrorCode};

use super::forward::{PortTarget, Unanswered, connect, forward};
use super::headers::PortAddress;
use super::target::target;
use super::tunnel;
use crate::http::HttpState;
use crate::http::request::extract::{RouteJob, port};
use crate::http::response::failure::{HttpAnswer, HttpFailure};
use crate::job::JobId;

/// The name of the upgrade that carries plain bytes.
const TCP: &str = "tcp";

/// A port of the sandbox for programs, WebSockets included. Refused with `Sec-Fetch-*` or a foreign `Origin`: browsers use `/jobs/{id}/ports/{port}`.
#[utoipa::path(
    get, path = "/jobs/{id}/proxy/{port}/", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("port" = u16, Path, description = "A port on the sandbox's loopback"),
    ),
    responses(
        (status = 200, description = "Whatever the program answers, with `Content-Security-Policy: sandbox`"),
        (status = 403, description = "A browser asked", body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
        (status = 502, description = "Nothing listens there", body = ErrorBody),
    )
)]
pub(in crate::http) async fn root(state: State<HttpState>, job: RouteJob, request: Request) -> HttpAnswer {
    pass_on(state, job, request).await
}

/// The same, with the path for the program on the port. Takes every method.
#[utoipa::path(
    get, path = "/jobs/{id}/proxy/{port}/{path}", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("port" = u16, Path, description = "A port on the sandbox's loopback"),
        ("path" = String, Path, description = "Passed on as it is"),
    ),
    responses(
        (status = 200, description = "Whatever the program answers, with `Content-Security-Policy: sandbox`"),
        (status = 403, description = "A browser asked", body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
        (status = 502, description = "Nothing listens there", body = ErrorBody),
    )
)]
pub(in crate::http) async fn pass_on(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    request: Request,
) -> HttpAnswer {
    // First: a page from a sandbox on the API's own origin could act as the person who views it.
    refuse_browsers(request.headers())?;
    if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
        return Err(ApiError::new(ErrorCode::MethodNotAllowed, "ports take ordinary requests").into());
    }
    let (port, prefix) = place(job.id(), request.uri().path())?;
    let target = target(request.uri(), &prefix).ok_or_else(|| {
        ApiError::new(ErrorCode::BadRequest, "the path for the port can be read in more than one way")
    })?;
    let machine = state.machine(&job).await?;
    let destination =
        PortTarget { job: job.id(), port, target, address: PortAddress::Below(prefix), timeout: None };
    forward(&state, &machine, destination, request).await.map_err(|error| failure(error, port))
}

/// With `Upgrade: tcp` a plain connection to the port: after the 101 the bytes of both sides, as they are.
#[utoipa::path(
    get, path = "/jobs/{id}/proxy/{port}", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("port" = u16, Path, description = "A port on the sandbox's loopback"),
    ),
    responses(
        (status = 101, description = "Bytes both ways"),
        (status = 308, description = "Without the upgrade: to the same with a slash"),
        (status = 403, description = "A browser asked", body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
        (status = 502, description = "Nothing listens there", body = ErrorBody),
    )
)]
pub(in crate::http) async fn connection(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    mut request: Request,
) -> HttpAnswer {
    refuse_browsers(request.headers())?;
    let (port, prefix) = place(job.id(), request.uri().path())?;
    let wanted = request.headers().get(UPGRADE).and_then(|value| value.to_str().ok());
    if !wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(TCP)) {
        let location = HeaderValue::from_str(&format!("{prefix}/")).unwrap_or(HeaderValue::from_static("/"));
        return Ok((StatusCode::PERMANENT_REDIRECT, [(LOCATION, location)]).into_response());
    }
    let machine = state.machine(&job).await?;
    let busy = || failure(Unanswered::Busy, port);
    // Held by the tunnel until it ends.
    let lane = state.lanes().enter(job.id()).ok_or_else(busy)?;
    let client = hyper::upgrade::on(&mut request);
    let stream = connect(&machine, port, None).await.map_err(|error| failure(error, port))?;
    tunnel::carry(client, async { Ok(stream) }, lane, state.shutdown().clone());
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(TCP));
    Ok(response)
}

/// A WebSocket may name the server's own origin: clients in Python always do. A browser's names `Sec-Fetch-*` beside it.
fn refuse_browsers(headers: &HeaderMap) -> Result<(), ApiError> {
    let fetches = headers.keys().any(|name| name.as_str().starts_with("sec-fetch-"));
    let host = headers.get(HOST).map(|value| value.as_bytes()).unwrap_or_default();
    let own = |origin: &HeaderValue| {
        origin.as_bytes().strip_prefix(b"http://").or_else(|| origin.as_bytes().strip_prefix(b"https://"))
            == Some(host)
    };
    let origins = headers.get_all(ORIGIN);
    let socket =
        headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let foreign = origins.iter().any(|origin| !(socket && own(origin)));
    if fetches || foreign {
        return Err(ApiError::new(ErrorCode::ForeignOrigin, "this route is for programs")
            .with_hint("a browser sees a port on its own origin: GET /jobs/{id}/ports/{port}"));
    }
    Ok(())
}

/// The port that a path names, and the path up to and with it.
fn place(id: &JobId, path: &str) -> Result<(u16, String), HttpFailure> {
    let start = format!("/jobs/{id}/proxy/");
    let segment = path.strip_prefix(&start).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let port = port(segment)
        .ok_or_else(|| ApiError::new(ErrorCode::BadRequest, "a port is a number from 1 to 65535"))?;
    Ok((port, format!("{start}{port}")))
}

fn failure(error: Unanswered, port: u16) -> HttpFailure {
    let gateway = |message: String| ApiError::new(ErrorCode::SandboxFailed, message);
    match error {
        Unanswered::Nothing => gateway(format!("nothing listens on port {port}"))
            .with_hint("a server must listen on localhost or on all addresses of the sandbox")
            .into(),
        Unanswered::NotStarted(why) => gateway(why).into(),
        Unanswered::Malformed => {
            gateway(format!("what listens on port {port} did not answer in HTTP")).into()
        }
        Unanswered::Machine(error) => error.into(),
        Unanswered::Busy => {
            ApiError::new(ErrorCode::TooManyRequests, "too many connections to ports of this job are open")
                .with_retry_after_s(1)
                .into()
        }
        Unanswered::Starting | Unanswered::Late => ApiError::new(
            ErrorCode::SandboxTimeout,
            format!("what listens on port {port} did not answer in time"),
        )
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn w2_browsers_are_told_from_programs() {
        let refused = |fields: &[(&str, &str)]| {
            let mut map = HeaderMap::new();
            map.insert(HOST, HeaderValue::from_static("127.0.0.1:8000"));
            for (name, value) in fields {
                map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            }
            refuse_browsers(&map).is_err()
        };
        let own = ("origin", "http://127.0.0.1:8000");
        let socket = ("upgrade", "websocket");
        assert!(!refused(&[]) && !refused(&[socket]) && !refused(&[socket, own]));
        assert!(refused(&[own]), "a page of the console");
        assert!(refused(&[socket, own, ("sec-fetch-site", "same-origin")]));
        assert!(refused(&[("sec-fetch-mode", "navigate")]) && refused(&[("Sec-Fetch-User", "?1")]));
        assert!(refused(&[socket, ("origin", "http://localhost:8000")]) && refused(&[("origin", "null")]));
        assert!(refused(&[socket, own, ("origin", "http://evil.example")]));
    }
}
