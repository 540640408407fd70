//! The origin of one port of one job: `<port>-<job>.localhost`. Nothing of the API is here.
//!
//! The rules of `auth::visits` admit a request, and [`Yard::job`](crate::app::Yard::job) checks its caller; then it is passed
//! on whole. Paths below `/.sandyard/` belong to the server on every such origin: there a ticket is exchanged for the
//! origin's cookie, before the sandbox sees anything.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use sandyard_sandbox::machine::MachineError;

use super::LAB_PORT;
use super::forward::{PortTarget, Unanswered, forward};
use super::headers::PortAddress;
use super::lab_files;
use super::notice::Notice;
use super::target::target;
use crate::app::{AppError, JobAccess, TicketTarget, WithOutput};
use crate::auth::origins::JobOrigin;
use crate::auth::visits::{PortVisit, VisitRefused, is_browser};
use crate::auth::{AccessScope, Caller, RequestHead};
use crate::http::HttpState;
use crate::http::request::conditions::wants_page;
use crate::http::request::query::query_value;

const OWN_PATHS: &str = "/.sandyard/";
/// The path where a ticket is exchanged for the cookie; `to` in the query is the path to go to afterwards.
pub(in crate::http) const ENTER: &str = "/.sandyard/enter";
/// Longest wait of a page for a program that starts. Afterwards a person sees a notice rather than an empty tab.
const PAGE_TIMEOUT: Duration = Duration::from_millis(1500);
/// Seconds until a page that waits reloads.
const RELOAD_S: u32 = 1;

/// Answers a request to a job's origin.
pub(in crate::http) async fn serve(state: &HttpState, origin: JobOrigin, request: Request) -> Response {
    // First: the sandbox must never see a ticket, nor answer on a path of the server.
    if request.uri().path().starts_with(OWN_PATHS) {
        return enter(state, &origin, request.method(), request.uri(), request.headers()).await;
    }
    let headers = request.headers().clone();
    match state.access().visit(&origin, &RequestHead::from(&request), now()) {
        Err(VisitRefused::Foreign) => {
            let line = "Pages of other origins may not reach this sandbox.";
            Notice::new(StatusCode::FORBIDDEN, "Refused", line).answer(&headers)
        }
        Err(VisitRefused::NoPass) => no_pass(&headers),
        Ok(PortVisit::Ask) => ask(&headers),
        Ok(PortVisit::Known(caller)) => answer(state, &caller, &origin, request).await,
        Ok(PortVisit::First(caller)) => {
            let cookie = state.access().pass_cookie(&origin, &caller, &headers, now());
            with_cookie(answer(state, &caller, &origin, request).await, &cookie)
        }
    }
}

async fn answer(state: &HttpState, caller: &Caller, origin: &JobOrigin, request: Request) -> Response {
    let headers = request.headers().clone();
    match pass_on(state, caller, origin, request).await {
        Ok(response) => response,
        Err(notice) => notice.answer(&headers),
    }
}

async fn pass_on(
    state: &HttpState,
    caller: &Caller,
    origin: &JobOrigin,
    request: Request,
) -> Result<Response, Notice> {
    if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
        let line = "Ports take ordinary requests.";
        return Err(Notice::new(StatusCode::METHOD_NOT_ALLOWED, "Refused", line));
    }
    let target = target(request.uri(), "").ok_or_else(|| {
        Notice::new(StatusCode::BAD_REQUEST, "Refused", "The address can be read in more than one way.")
    })?;
    // A pass names its maker. Each request checks again that the maker may use the job, so a lost right takes effect at once.
    let job = state.yard().job(caller, &origin.job, AccessScope::UseSandbox).await.map_err(|_| no_job())?;
    let machine = match state.machine(&job).await {
        Ok(machine) => machine,
        Err(_) => return Err(no_machine(state, &job).await),
    };
    let timeout = wants_page(request.headers()).then_some(PAGE_TIMEOUT);
    // Before the request is passed on: a change of files without a record must not happen.
    let recorded = lab_files::record(state, &job, origin.port, request.method(), &target).await;
    let recorded = recorded.map_err(|_: AppError| {
        let line = "What is done with files is recorded, and can't be at the moment.";
        Notice::new(StatusCode::SERVICE_UNAVAILABLE, "Not now", line)
    })?;
    let destination =
        PortTarget { job: job.id(), port: origin.port, target, address: PortAddress::Origin, timeout };
    let answer = forward(state, &machine, destination, request).await;
    if let Some(recorded) = recorded {
        recorded.ended(answer.as_ref().ok());
    }
    answer.map_err(|error| unanswered(&error, origin.port))
}

/// The page about a job without a machine: it waits, it has ended, or it was deleted.
async fn no_machine(state: &HttpState, job: &JobAccess) -> Notice {
    match state.yard().status(job, WithOutput::Without).await {
        Ok(status) => Notice::of_job(&status),
        Err(_) => no_job(),
    }
}

fn no_job() -> Notice {
    Notice::new(StatusCode::NOT_FOUND, "No such job", "There is no such job, or no longer.")
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
        Unanswered::Starting if port == LAB_PORT => {
            let line = "The first start takes a few seconds. This page goes on by itself.";
            Notice::new(unavailable, "JupyterLab is starting", line).again(RELOAD_S, "")
        }
        Unanswered::Starting => {
            let line =
                format!("The program on port {port} does not answer yet. This page goes on by itself.");
            Notice::new(unavailable, "Starting", line).again(RELOAD_S, "")
        }
        Unanswered::NotStarted(why) => {
            Notice::new(StatusCode::BAD_GATEWAY, "The service did not start", why.as_str())
        }
        Unanswered::Busy => {
            let line = "Too many connections to this sandbox are open.";
            Notice::new(unavailable, "Busy", line).again(2, "")
        }
        Unanswered::Machine(MachineError::Finishing) => {
            let line = "The job has ended, and its files are being saved. This page looks again by itself.";
            Notice::new(StatusCode::CONFLICT, "Finishing", line).again(2, "")
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
async fn enter(
    state: &HttpState,
    origin: &JobOrigin,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Response {
    if uri.path() != ENTER || method != Method::GET {
        return Notice::new(StatusCode::NOT_FOUND, "Not found", "There is nothing here.").answer(headers);
    }
    let Some(caller) = ticket_maker(state, origin, uri).await else { return no_pass(headers) };
    let cookie = state.access().pass_cookie(origin, &caller, headers, now());
    let to = query_value(uri, "to").filter(|to| is_local_path(to)).unwrap_or_else(|| "/".to_owned());
    let line = "Opening the sandbox.";
    let mut response =
        Notice::new(StatusCode::OK, "Sandyard", line).again(0, &to).link(&to, "Go on").answer(headers);
    if !is_browser(headers) {
        // Clients without a browser's cookie rules follow a redirect.
        *response.status_mut() = StatusCode::SEE_OTHER;
        response
            .headers_mut()
            .insert(LOCATION, HeaderValue::from_str(&to).unwrap_or(HeaderValue::from_static("/")));
    }
    with_cookie(response, &cookie)
}

/// Redeems the ticket in a query. Returns its maker if the ticket is valid here and the maker may still use the sandbox.
async fn ticket_maker(state: &HttpState, origin: &JobOrigin, uri: &Uri) -> Option<Caller> {
    let ticket = query_value(uri, "ticket")?;
    let maker = state.yard().redeem_ticket(&origin.job, TicketTarget::Origin(origin.port), &ticket)?;
    state.yard().job(&maker, &origin.job, AccessScope::UseSandbox).await.ok().map(|job| job.caller().clone())
}

/// True for a path of this origin. Rejects `//host` and backslashes, which browsers read as another host.
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
