//! Which requests are recorded, and what of them: the table of routes and their kinds.

use axum::extract::Request;
use axum::http::header::UPGRADE;
use axum::http::{Method, Uri};
use serde_json::{Value, json};

use crate::audit::{Kind, cut};
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
    pub(super) kind: Kind,
    pub(super) facts: Value,
    pub(super) body: BodyOf,
    /// Whether files may be others afterwards.
    pub(super) changes: bool,
}

impl Action {
    fn new(kind: Kind, facts: Value) -> Self {
        Self { kind, facts, body: BodyOf::Nobody, changes: false }
    }

    fn call(kind: Kind) -> Self {
        Self { kind, facts: json!({}), body: BodyOf::Call, changes: true }
    }

    fn open(what: &str) -> Self {
        Self::new(Kind::Open, json!({ "what": what }))
    }
}

/// What a request does, if it is recorded here.
pub(super) fn action(request: &Request, route: &str) -> Option<Action> {
    let (method, uri) = (request.method(), request.uri());
    let route = route.strip_prefix("/jobs/{id}/")?;
    let get = matches!(*method, Method::GET | Method::HEAD);
    Some(match route {
        "tickets" => Action { changes: false, ..Action::call(Kind::Ticket) },
        "download" => Action::new(Kind::Download, json!({})),
        "shell" if get && request.headers().contains_key(UPGRADE) => Action::open("terminal"),
        "shell" if !get => Action::call(Kind::Shell),
        "code" => Action::call(Kind::Code),
        "gui" => Action::call(Kind::Gui),
        "screenshot.png" => Action::new(Kind::Gui, json!({ "what": "screenshot" })),
        "desktop/socket" => {
            let control =
                query_pairs(uri.query().unwrap_or_default()).contains(&("control".into(), "1".into()));
            Action::new(Kind::Open, json!({ "what": "desktop", "control": control }))
        }
        "lab" => Action::open("lab"),
        "ports/{port}" | "proxy/{port}" | "proxy/{port}/" | "proxy/{port}/{*path}" => port(method, uri),
        _ if route.starts_with("kernels") && !get => {
            let tail = uri.path().splitn(5, '/').nth(4).unwrap_or_default();
            let facts = json!({ "method": method.as_str(), "kernel": cut(tail, TEXT_BYTES) });
            Action { kind: Kind::Kernel, facts, body: BodyOf::Call, changes: false }
        }
        _ if route.starts_with("files") => file(method, uri),
        _ => return None,
    })
}

fn port(method: &Method, uri: &Uri) -> Action {
    // Without the query, which may hold a ticket or somebody's secret.
    let way = uri.path().splitn(4, '/').nth(3).unwrap_or_default();
    Action::new(Kind::Open, json!({ "what": cut(way, TEXT_BYTES), "method": method.as_str() }))
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
    let facts = json!({ "operation": operation, "path": cut(path, TEXT_BYTES) });
    Action { kind: Kind::File, facts, body, changes }
}
