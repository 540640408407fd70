//! Which requests are recorded, and what of them: the table of routes and their kinds.

use axum::extract::Request;
use axum::http::header::UPGRADE;
use axum::http::{Method, Uri};

use crate::audit::{CallFacts, cut};
use crate::http::parts::query_pairs;

/// Of a path or a name that a caller chose.
const TEXT_BYTES: usize = 500;

/// What is done with a body on its way in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyOf {
    /// There is none, or it is the program's on a port.
    Nobody,
    /// It is read first, so that its hash is in the record.
    Call,
    /// It is hashed as it passes.
    File,
}

/// Something that is recorded.
pub(super) struct Action {
    pub(super) call: CallFacts,
    pub(super) body: BodyOf,
    /// Whether files may be others afterwards.
    pub(super) changes: bool,
}

impl Action {
    fn new(call: CallFacts) -> Self {
        Self { call, body: BodyOf::Nobody, changes: false }
    }

    fn call(call: CallFacts) -> Self {
        Self { call, body: BodyOf::Call, changes: true }
    }

    fn open(what: &str) -> Self {
        Self::new(CallFacts::Open { what: what.to_owned(), control: None, method: None })
    }
}

/// What a request does, if it is recorded here.
pub(super) fn action(request: &Request, route: &str) -> Option<Action> {
    let (method, uri) = (request.method(), request.uri());
    let route = route.strip_prefix("/jobs/{id}/")?;
    let get = matches!(*method, Method::GET | Method::HEAD);
    Some(match route {
        "tickets" => Action { changes: false, ..Action::call(CallFacts::Ticket {}) },
        "download" => Action::new(CallFacts::Download {}),
        "shell" if get && request.headers().contains_key(UPGRADE) => Action::open("terminal"),
        "shell" if !get => Action::call(CallFacts::Shell {}),
        "code" => Action::call(CallFacts::Code {}),
        "gui" => Action::call(CallFacts::Gui { what: None }),
        "screenshot.png" => Action::new(CallFacts::Gui { what: Some("screenshot") }),
        "desktop/socket" => {
            let control =
                query_pairs(uri.query().unwrap_or_default()).contains(&("control".into(), "1".into()));
            Action::new(CallFacts::Open { what: "desktop".to_owned(), control: Some(control), method: None })
        }
        "lab" => Action::open("lab"),
        "ports/{port}" | "proxy/{port}" | "proxy/{port}/" | "proxy/{port}/{*path}" => port(method, uri),
        _ if route.starts_with("kernels") && !get => {
            let tail = uri.path().splitn(5, '/').nth(4).unwrap_or_default();
            let call =
                CallFacts::Kernel { method: method.as_str().to_owned(), kernel: cut(tail, TEXT_BYTES) };
            Action { call, body: BodyOf::Call, changes: false }
        }
        _ if route.starts_with("files") => file(method, uri),
        _ => return None,
    })
}

fn port(method: &Method, uri: &Uri) -> Action {
    // Without the query, which may hold a ticket or somebody's secret.
    let way = uri.path().splitn(4, '/').nth(3).unwrap_or_default();
    let method = Some(method.as_str().to_owned());
    Action::new(CallFacts::Open { what: cut(way, TEXT_BYTES), control: None, method })
}

fn file(method: &Method, uri: &Uri) -> Action {
    let path = uri.path().splitn(5, '/').nth(4).unwrap_or_default();
    let asked = |name: &str| uri.query().is_some_and(|query| query.contains(name));
    let (operation, body) = match *method {
        Method::PUT => ("write", BodyOf::File),
        Method::PATCH => ("change", BodyOf::Call),
        Method::DELETE => ("remove", BodyOf::Nobody),
        _ if asked("stat=") => ("stat", BodyOf::Nobody),
        _ if asked("search=") => ("search", BodyOf::Nobody),
        _ if asked("archive=") => ("archive", BodyOf::Nobody),
        _ => ("read", BodyOf::Nobody),
    };
    let changes = matches!(operation, "write" | "change" | "remove");
    let call =
        CallFacts::File { operation: operation.to_owned(), path: cut(path, TEXT_BYTES), through: None };
    Action { call, body, changes }
}
