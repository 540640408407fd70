//! The origin of one port of one job: `<port>-<job>.localhost`. Nothing of the API is here.
//!
//! A request is let in by the rules of `auth::visits`, then passed on whole. Paths below `/.sandyard/` are ours on every such
//! origin: there a ticket is exchanged for the origin's cookie, before anything of the sandbox is asked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;

use super::forward::{Destination, Unanswered, forward};
use super::headers::Shown;
use super::lab_files;
use super::notice::{Notice, wants_page};
use super::target::target;
use crate::app::{TicketPurpose, WithOutput};
use crate::auth::origins::JobOrigin;
use crate::auth::visits::{Refused, Visit, is_browser};
use crate::http::HttpState;
use crate::http::parts::query_pairs;

const OURS: &str = "/.sandyard/";
/// Where a ticket is exchanged for the cookie; `to` says where to go on.
pub(in crate::http) const ENTER: &str = "/.sandyard/enter";
/// A person is told that a program is starting rather than shown an empty tab.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How soon a page that waits looks again.
const LOOK_AGAIN_S: u32 = 1;

/// Answers a request to a job's origin.
pub(in crate::http) async fn serve(state: &HttpState, origin: JobOrigin, request: Request) -> Response {
    if request.uri().path().starts_with(OURS) {
        return enter(state, &origin, &request);
    }
    let headers = request.headers().clone();
    match state.access().visit(&origin, request.method(), &headers, now()) {
        Err(Refused::Foreign) => {
            let line = "Pages of other origins may not reach this sandbox.";
            Notice::new(StatusCode::FORBIDDEN, "Refused", line).answer(&headers)
        }
        Err(Refused::NoPass) => no_pass(&headers),
        Ok(Visit::Ask) => ask(&headers),
        Ok(Visit::Known) => answer(state, &origin, request).await,
        Ok(Visit::First) => {
            let cookie = state.access().pass_cookie(&origin, &headers, now());
            with_cookie(answer(state, &origin, request).await, &cookie)
        }
    }
}

async fn answer(state: &HttpState, origin: &JobOrigin, request: Request) -> Response {
    let headers = request.headers().clone();
    match pass_on(state, origin, request).await {
        Ok(response) => response,
        Err(notice) => notice.answer(&headers),
    }
}

async fn pass_on(state: &HttpState, origin: &JobOrigin, request: Request) -> Result<Response, Notice> {
    if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
        let line = "Ports take ordinary requests.";
        return Err(Notice::new(StatusCode::METHOD_NOT_ALLOWED, "Refused", line));
    }
    let target = target(request.uri(), "").ok_or_else(|| {
        Notice::new(StatusCode::BAD_REQUEST, "Refused", "The address can be read in more than one way.")
    })?;
    let machine = match state.machine(&origin.job).await {
        Ok(machine) => machine,
        Err(_) => return Err(no_machine(state, origin).await),
    };
    let patience = wants_page(request.headers()).then_some(PATIENCE);
    let witnessed = lab_files::note(state, origin, request.method(), &target).await.map_err(|_| {
        let line = "What is done with files is recorded, and can't be at the moment.";
        Notice::new(StatusCode::SERVICE_UNAVAILABLE, "Not now", line)
    })?;
    let destination =
        Destination { job: &origin.job, port: origin.port, target, shown: Shown::Origin, patience };
    let answer = forward(state, &machine, destination, request).await;
    if let Some(witnessed) = witnessed {
        witnessed.ended(answer.as_ref().ok());
    }
    answer.map_err(|error| unanswered(&error, origin.port))
}

/// Waiting, ended, or never there.
async fn no_machine(state: &HttpState, origin: &JobOrigin) -> Notice {
    match state.yard().status(&origin.job, WithOutput::Without).await {
        Ok(job) => Notice::of_job(&job),
        Err(_) => Notice::new(StatusCode::NOT_FOUND, "No such job", "There is no such job, or no longer."),
    }
}

fn unanswered(error: &Unanswered, port: u16) -> Notice {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    match error {
        Unanswered::Nothing => {
            let line =
                format!("No program in the sandbox listens on port {port}. This page looks again by itself.");
            let hint = "A server must listen on localhost or on all addresses of the sandbox.";
            Notice::new(StatusCode::BAD_GATEWAY, "Nothing listens here yet", line).line(hint).again(2, "")
        }
        Unanswered::Starting if port == super::super::lab::PORT => {
            let line = "The first start takes a few seconds. This page goes on by itself.";
            Notice::new(unavailable, "JupyterLab is starting", line).again(LOOK_AGAIN_S, "")
        }
        Unanswered::Starting => {
            let line =
                format!("The program on port {port} does not answer yet. This page goes on by itself.");
            Notice::new(unavailable, "Starting", line).again(LOOK_AGAIN_S, "")
        }
        Unanswered::NotStarted(why) => {
            Notice::new(StatusCode::BAD_GATEWAY, "The service did not start", why.as_str())
        }
        Unanswered::Busy => {
            let line = "Too many connections to this sandbox are open.";
            Notice::new(unavailable, "Busy", line).again(2, "")
        }
        Unanswered::Machine(_) => {
            let line = "The sandbox can't be reached at the moment. This page looks again by itself.";
            Notice::new(StatusCode::BAD_GATEWAY, "Not reachable", line).again(2, "")
        }
        Unanswered::Malformed => {
            let line = format!("What listens on port {port} did not give an answer in HTTP.");
            Notice::new(StatusCode::BAD_GATEWAY, "Not a web server", line)
        }
        Unanswered::Late => {
            let line = format!("The program on port {port} did not answer in time.");
            Notice::new(StatusCode::GATEWAY_TIMEOUT, "No answer", line)
        }
    }
}

/// Exchanges a ticket for the cookie. The page that follows is opened by a page of this origin: a redirect would still be the
/// doing of the site that the person came from, and the strict cookie would stay behind.
fn enter(state: &HttpState, origin: &JobOrigin, request: &Request) -> Response {
    let headers = request.headers();
    let pairs = query_pairs(request.uri().query().unwrap_or_default());
    let value = |name: &str| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    if request.uri().path() != ENTER || request.method() != Method::GET {
        return Notice::new(StatusCode::NOT_FOUND, "Not found", "There is nothing here.").answer(headers);
    }
    let purpose = TicketPurpose::Origin(origin.port);
    if !value("ticket").is_some_and(|ticket| state.yard().redeem_ticket(&origin.job, purpose, ticket)) {
        return no_pass(headers);
    }
    let cookie = state.access().pass_cookie(origin, headers, now());
    let to = value("to").filter(|to| is_local_path(to)).unwrap_or("/");
    let line = "Opening the sandbox.";
    let mut response =
        Notice::new(StatusCode::OK, "Sandyard", line).again(0, to).link(to, "Go on").answer(headers);
    if !is_browser(headers) {
        *response.status_mut() = StatusCode::SEE_OTHER;
        response
            .headers_mut()
            .insert(LOCATION, HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/")));
    }
    with_cookie(response, &cookie)
}

/// A path of this origin and nothing else.
fn is_local_path(path: &str) -> bool {
    let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~?&=%@:+,".contains(&byte));
    path.starts_with('/') && !path.starts_with("//") && plain
}

fn no_pass(headers: &HeaderMap) -> Response {
    let line = "This link has been used, has run out, or was never good.";
    Notice::new(StatusCode::UNAUTHORIZED, "Open it again", line)
        .line("Open the sandbox from its page, or with `sandyard open`.")
        .answer(headers)
}

fn ask(headers: &HeaderMap) -> Response {
    let line = "Another page leads to this sandbox. Go on only if you meant to open it.";
    Notice::new(StatusCode::OK, "Open this sandbox?", line).link("", "Open it").answer(headers)
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w13_one_goes_on_within_the_origin_only() {
        for path in ["/", "/lab", "/a/b?c=d&e=%20"] {
            assert!(is_local_path(path), "{path}");
        }
        for path in [
            "",
            "//evil.example",
            "/\\evil.example",
            "http://evil.example",
            "/a\"><b>",
            "/a b",
            "/a;url=x",
            "lab",
        ] {
            assert!(!is_local_path(path), "{path}");
        }
    }
}
