//! The rules of one route, around its handler: identity of the sender, right to the job, and record in the audit.
//!
//! The order matters. A ticket is used up before anything else is looked at, so that a ticket in the wrong place is lost. Then
//! the request's name and origin are checked, then the key, then the right to the job. The audit comes last: a request that
//! is refused here does nothing to a job.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sandyard_api::{ApiError, ErrorCode, JobIdPrefix, Query, bounds};

use crate::app::{AppError, TicketTarget};
use crate::auth::visits::is_foreign;
use crate::auth::{AccessScope, Caller, RequestHead, unauthorized};
use crate::http::request::conditions::wants_page;
use crate::http::request::extract::job_segment;
use crate::http::request::query::query_value;
use crate::http::response::failure::HttpFailure;
use crate::http::rules::{AccessRule, RouteRule, TicketRule};
use crate::http::{HttpState, audit_layer, pages};
use crate::job::JobId;

/// The caller of a request that a tool of MCP makes within the process: `/mcp` has admitted it.
#[derive(Debug, Clone)]
pub(in crate::http) struct InProcessCaller(pub(in crate::http) Caller);

/// The layer around a handler.
pub(in crate::http) async fn guard(
    State((state, rule)): State<(HttpState, RouteRule)>,
    request: Request,
    next: Next,
) -> Response {
    match enter(&state, rule, request, next).await {
        Ok(response) => response,
        Err(GuardRefusal::Page) => pages::open(),
        Err(GuardRefusal::HttpFailure(failure)) => failure.into_response(),
    }
}

/// Why a request does not reach its handler.
enum GuardRefusal {
    /// A person needs a key, and gets the page that asks for it.
    Page,
    HttpFailure(HttpFailure),
}

impl<E: Into<HttpFailure>> From<E> for GuardRefusal {
    fn from(error: E) -> Self {
        Self::HttpFailure(error.into())
    }
}

async fn enter(
    state: &HttpState,
    rule: RouteRule,
    mut request: Request,
    next: Next,
) -> Result<Response, GuardRefusal> {
    let Some(scope) = rule.access.scope() else {
        check(state, &request)?;
        return Ok(next.run(request).await);
    };
    let caller = match admit(state, rule.access.ticket(), &mut request) {
        Err(failure) if shows_page(rule.access, &failure, &request) => return Err(GuardRefusal::Page),
        admitted => admitted?,
    };
    if !rule.names_job {
        if !caller.has(scope) {
            return Err(AppError::missing_scope().into());
        }
        request.extensions_mut().insert(caller);
        return Ok(next.run(request).await);
    }
    // Text that is no beginning of an id is an unknown job, like any other.
    let named =
        job_segment(request.uri().path()).and_then(JobIdPrefix::parse).ok_or_else(AppError::unknown_job)?;
    // Before the audit: a caller without a right must not be able to fill a foreign job's audit.
    let job = state.yard().job_named(&caller, &named, scope).await?;
    let job = match sandbox_wait(scope, &request)? {
        Some(wait) => job.with_sandbox_wait(wait),
        None => job,
    };
    request.extensions_mut().insert(job.clone());
    Ok(audit_layer::record(state, rule.audit, &job, request, next).await?)
}

/// The time that a request for a tool gives a sandbox that is starting; `None` if it names none.
fn sandbox_wait(scope: AccessScope, request: &Request) -> Result<Option<Duration>, HttpFailure> {
    if scope != AccessScope::UseSandbox {
        return Ok(None);
    }
    let Some(text) = query_value(request.uri(), "wait") else { return Ok(None) };
    let query = Query::read(vec![("wait".to_owned(), text)], &["wait"])?;
    Ok(query.whole("wait", bounds::WAIT_S)?.map(Duration::from_secs))
}

/// Rejects requests that no route takes: an absolute address, a foreign name, a foreign page.
pub(in crate::http) fn check(state: &HttpState, request: &Request) -> Result<(), HttpFailure> {
    refuse_absolute(request)?;
    Ok(state.access().check(&RequestHead::from(request))?)
}

fn refuse_absolute(request: &Request) -> Result<(), HttpFailure> {
    // An absolute address names a host of its own, beside the one in `Host`.
    match request.uri().authority() {
        None => Ok(()),
        Some(_) => {
            let message = "this server is no proxy for other addresses";
            Err(ApiError::new(ErrorCode::BadRequest, message).into())
        }
    }
}

/// The caller of a request, by ticket or key.
pub(in crate::http) fn admit(
    state: &HttpState,
    rule: Option<TicketRule>,
    request: &mut Request,
) -> Result<Caller, HttpFailure> {
    if let Some(InProcessCaller(caller)) = request.extensions_mut().remove() {
        return Ok(caller);
    }
    refuse_absolute(request)?;
    match rule.and_then(|rule| ticket_of(rule, request)) {
        // A wrong ticket is refused even where no key is needed.
        Some((job, purpose, ticket)) => {
            let maker = state.yard().redeem_ticket(&job, purpose, &ticket).ok_or_else(unauthorized)?;
            state.access().check(&RequestHead::from(&*request))?;
            Ok(maker)
        }
        None => Ok(state.access().admit(&RequestHead::from(&*request))?),
    }
}

/// The ticket in the query of a request whose route takes one: for which job, which purpose, and its text.
fn ticket_of(rule: TicketRule, request: &Request) -> Option<(JobId, TicketTarget, String)> {
    let purpose = rule.purpose(request)?;
    let ticket = query_value(request.uri(), "ticket")?;
    Some((JobId::parse(job_segment(request.uri().path())?)?, purpose, ticket))
}

/// True if a person followed a link to a sandbox and lacks a key: a bare refusal would be of no use. A request that another
/// site causes gets no page that goes on by itself.
fn shows_page(rule: AccessRule, failure: &HttpFailure, request: &Request) -> bool {
    let AccessRule::Person(_, ticket) = rule else { return false };
    let leads_somewhere = ticket.is_none_or(|ticket| ticket.purpose(request).is_some());
    failure.code() == "unauthorized"
        && leads_somewhere
        && request.method() == Method::GET
        && wants_page(request.headers())
        && !is_foreign(request.headers())
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
