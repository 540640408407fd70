//! Audit records of requests, one function for each kind of route. The table of routes names them.

use axum::extract::Request;
use axum::http::Method;
use axum::http::header::UPGRADE;

use crate::audit::{CallFacts, cut};
use crate::http::request::query::query_value;

/// Longest text in a record that a caller chose, such as a path.
const MAX_TEXT_BYTES: usize = 500;

/// Treatment of a body on its way in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyRecord {
    /// Nothing: there is none, or it is for a program on a port.
    Ignored,
    /// It is read first, so that its hash is in the record.
    ReadFirst,
    /// It is hashed as it passes.
    Hashed,
}

/// A request that is recorded.
pub(in crate::http) struct RecordedAction {
    pub(super) call: CallFacts,
    pub(super) body: BodyRecord,
    /// True if the call may have changed files.
    pub(super) changes: bool,
}

impl RecordedAction {
    fn new(call: CallFacts) -> Self {
        Self { call, body: BodyRecord::Ignored, changes: false }
    }

    fn call(call: CallFacts) -> Self {
        Self { call, body: BodyRecord::ReadFirst, changes: true }
    }

    fn open(what: &str) -> Self {
        Self::new(CallFacts::Open { what: what.to_owned(), control: None, method: None })
    }
}

pub(in crate::http) fn ticket(_: &Request) -> Option<RecordedAction> {
    Some(RecordedAction { changes: false, ..RecordedAction::call(CallFacts::Ticket {}) })
}

pub(in crate::http) fn download(_: &Request) -> Option<RecordedAction> {
    Some(RecordedAction::new(CallFacts::Download {}))
}

/// Without an upgrade no terminal opens.
pub(in crate::http) fn terminal(request: &Request) -> Option<RecordedAction> {
    request.headers().contains_key(UPGRADE).then(|| RecordedAction::open("terminal"))
}

/// Without an upgrade a process is only watched. With one, keys can be sent to it.
pub(in crate::http) fn process(request: &Request) -> Option<RecordedAction> {
    let what = format!("process {}", cut(below(request), MAX_TEXT_BYTES));
    request.headers().contains_key(UPGRADE).then(|| RecordedAction::open(&what))
}

pub(in crate::http) fn extend(_: &Request) -> Option<RecordedAction> {
    Some(RecordedAction { changes: false, ..RecordedAction::call(CallFacts::Extend {}) })
}

pub(in crate::http) fn signal(request: &Request) -> Option<RecordedAction> {
    let process = below(request).trim_end_matches("/signal");
    Some(RecordedAction::call(CallFacts::Signal { process: cut(process, MAX_TEXT_BYTES) }))
}

pub(in crate::http) fn shell(_: &Request) -> Option<RecordedAction> {
    Some(RecordedAction::call(CallFacts::Shell {}))
}

pub(in crate::http) fn code(_: &Request) -> Option<RecordedAction> {
    Some(RecordedAction::call(CallFacts::Code {}))
}

pub(in crate::http) fn gui(_: &Request) -> Option<RecordedAction> {
    Some(RecordedAction::call(CallFacts::Gui { what: None }))
}

pub(in crate::http) fn screenshot(_: &Request) -> Option<RecordedAction> {
    Some(RecordedAction::new(CallFacts::Gui { what: Some("screenshot") }))
}

pub(in crate::http) fn desktop(request: &Request) -> Option<RecordedAction> {
    let control = query_value(request.uri(), "control").is_some_and(|value| value == "1");
    let call = CallFacts::Open { what: "desktop".to_owned(), control: Some(control), method: None };
    Some(RecordedAction::new(call))
}

pub(in crate::http) fn lab(_: &Request) -> Option<RecordedAction> {
    Some(RecordedAction::open("lab"))
}

/// A connection to a port. The query is left out: it may hold a ticket or a program's secret.
pub(in crate::http) fn port(request: &Request) -> Option<RecordedAction> {
    let way = request.uri().path().splitn(4, '/').nth(3).unwrap_or_default();
    let method = Some(request.method().as_str().to_owned());
    Some(RecordedAction::new(CallFacts::Open { what: cut(way, MAX_TEXT_BYTES), control: None, method }))
}

pub(in crate::http) fn kernel(request: &Request) -> Option<RecordedAction> {
    let method = request.method().as_str().to_owned();
    let call = CallFacts::Kernel { method, kernel: cut(below(request), MAX_TEXT_BYTES) };
    Some(RecordedAction { call, body: BodyRecord::ReadFirst, changes: false })
}

pub(in crate::http) fn file(request: &Request) -> Option<RecordedAction> {
    let asked = |name: &str| request.uri().query().is_some_and(|query| query.contains(name));
    let (operation, body) = match *request.method() {
        Method::PUT => ("write", BodyRecord::Hashed),
        Method::PATCH => ("change", BodyRecord::ReadFirst),
        Method::DELETE => ("remove", BodyRecord::Ignored),
        _ if asked("stat=") => ("stat", BodyRecord::Ignored),
        _ if asked("search=") => ("search", BodyRecord::Ignored),
        _ if asked("archive=") => ("archive", BodyRecord::Ignored),
        _ => ("read", BodyRecord::Ignored),
    };
    let changes = matches!(operation, "write" | "change" | "remove");
    let path = cut(below(request), MAX_TEXT_BYTES);
    let call = CallFacts::File { operation: operation.to_owned(), path, through: None };
    Some(RecordedAction { call, body, changes })
}

/// The path below `/jobs/{id}/{resource}/`, as sent.
fn below(request: &Request) -> &str {
    request.uri().path().splitn(5, '/').nth(4).unwrap_or_default()
}
