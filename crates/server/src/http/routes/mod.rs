//! A route: one row that says which request reaches which handler, who may send it, what the audit calls it, and where the
//! OpenAPI document has it.
//!
//! [`Route::new`] takes all of it and has no defaults, so a route without an access rule, without a word for the audit or
//! without a place in the document does not compile. `gate` enforces the rules, [`table`] has the rows.

pub(super) mod table;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::http::header::UPGRADE;
use axum::routing::{MethodFilter, MethodRouter, any, on};
use utoipa::__dev::{SchemaReferences, Tags};
use utoipa::openapi::path::{HttpMethod, Operation};
use utoipa::openapi::{RefOr, Schema};

use super::audit_layer::RecordedAction;
use super::request::extract::port;
use super::{HttpState, gate};
use crate::app::TicketTarget;
use crate::auth::AccessScope;

/// The method of a route. `Get` takes HEAD too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteMethod {
    Get,
    Post,
    Put,
    Patch,
    Delete,
    /// Every method; the handler decides.
    Any,
}

/// The callers that may use a route.
#[derive(Debug, Clone, Copy)]
pub(super) enum AccessRule {
    /// Everybody: the answer does not depend on the caller.
    Public,
    /// The holder of a key with this scope.
    Key(AccessScope),
    /// The holder of a key with this scope, or of a ticket.
    Ticket(AccessScope, TicketRule),
    /// A person in a browser, by key or ticket. A browser that is refused gets a page that asks for the key.
    Person(AccessScope, Option<TicketRule>),
}

/// The tickets that open a route.
#[derive(Debug, Clone, Copy)]
pub(super) enum TicketRule {
    /// A ticket for this purpose, with GET.
    Get(TicketTarget),
    /// A ticket for this purpose, with a request that asks for an upgrade.
    Upgrade(TicketTarget),
    /// A ticket for the port in the last segment of the path.
    Port,
}

/// The audit's name for a request.
#[derive(Clone, Copy)]
pub(super) enum AuditRule {
    /// Nothing is recorded, for this reason.
    Unrecorded(&'static str),
    /// `app` records it in the commit that does it.
    InCommit,
    /// It is recorded before it is done, with its result after. `None` for a request that the handler will refuse.
    Recorded(fn(&Request) -> Option<RecordedAction>),
}

/// Where the OpenAPI document has a route.
pub(super) enum RouteDocument {
    /// Under the path and the methods that its handler's attribute names.
    Operation(fn() -> DocumentedOperation),
    /// Nowhere, for this reason.
    Undocumented(&'static str),
}

/// One operation of the document.
pub(super) struct DocumentedOperation {
    pub(super) path: String,
    pub(super) methods: Vec<HttpMethod>,
    pub(super) operation: Operation,
    /// The schemas that it refers to, by name.
    pub(super) schemas: Vec<(String, RefOr<Schema>)>,
}

/// The document of a handler with the attribute `utoipa::path`, which makes the type `__path_<handler>`. The hidden traits are
/// those that the macros of utoipa itself use to collect operations.
pub(super) fn documented<P>() -> RouteDocument
where
    P: utoipa::Path + SchemaReferences + for<'t> Tags<'t>,
{
    RouteDocument::Operation(|| {
        let mut operation = P::operation();
        operation.tags.get_or_insert_default().extend(P::tags().into_iter().map(str::to_owned));
        let mut schemas = Vec::new();
        P::schemas(&mut schemas);
        DocumentedOperation { path: P::path(), methods: P::methods(), operation, schemas }
    })
}

/// The rules that are enforced on every request of a route.
#[derive(Clone, Copy)]
pub(super) struct RouteRule {
    pub(super) access: AccessRule,
    pub(super) audit: AuditRule,
    /// True if the path names a job, which the caller must own.
    pub(super) names_job: bool,
}

/// One row of the table.
pub(super) struct Route {
    pub(super) method: RouteMethod,
    /// As the router matches it.
    pub(super) path: &'static str,
    pub(super) rule: RouteRule,
    pub(super) document: RouteDocument,
    handler: MethodRouter<HttpState>,
}

impl Route {
    /// A row. Every argument is needed.
    pub(super) fn new<H, T>(
        method: RouteMethod,
        path: &'static str,
        handler: H,
        access: AccessRule,
        audit: AuditRule,
        document: RouteDocument,
    ) -> Self
    where
        H: Handler<T, HttpState>,
        T: 'static,
    {
        let handler = match method.filter() {
            Some(filter) => on(filter, handler),
            None => any(handler),
        };
        let rule = RouteRule { access, audit, names_job: path.contains("{id}") };
        Self { method, path, rule, document, handler }
    }

    /// Adds the route to a router, with its rules around the handler. A method that the path does not take is outside of them.
    pub(super) fn add_to(self, router: Router<HttpState>, state: &HttpState) -> Router<HttpState> {
        let Self { method, path, rule, document, handler } = self;
        let (audit, document) = (rule.audit.words(), document.words());
        tracing::trace!(?method, path, access = ?rule.access, audit, document, "route");
        let guard = axum::middleware::from_fn_with_state((state.clone(), rule), gate::guard);
        // `any` serves its handler as the fallback of the path, and a route layer does not cover fallbacks. Elsewhere the fallback
        // answers methods that the path does not take.
        let guarded = match method {
            RouteMethod::Any => handler.layer(guard),
            _ => handler.route_layer(guard),
        };
        router.route(path, guarded)
    }
}

impl RouteMethod {
    fn filter(self) -> Option<MethodFilter> {
        match self {
            Self::Get => Some(MethodFilter::GET),
            Self::Post => Some(MethodFilter::POST),
            Self::Put => Some(MethodFilter::PUT),
            Self::Patch => Some(MethodFilter::PATCH),
            Self::Delete => Some(MethodFilter::DELETE),
            Self::Any => None,
        }
    }
}

impl AccessRule {
    /// The scope that a caller needs; `None` for a public route.
    pub(super) fn scope(self) -> Option<AccessScope> {
        match self {
            Self::Public => None,
            Self::Key(scope) | Self::Ticket(scope, _) | Self::Person(scope, _) => Some(scope),
        }
    }

    /// The ticket that opens the route, if one does.
    pub(super) fn ticket(self) -> Option<TicketRule> {
        match self {
            Self::Public | Self::Key(_) => None,
            Self::Ticket(_, rule) => Some(rule),
            Self::Person(_, rule) => rule,
        }
    }
}

impl AuditRule {
    fn words(self) -> &'static str {
        match self {
            Self::Unrecorded(reason) => reason,
            Self::InCommit => "recorded in its commit",
            Self::Recorded(_) => "recorded",
        }
    }
}

impl RouteDocument {
    fn words(&self) -> &'static str {
        match self {
            Self::Operation(_) => "documented",
            Self::Undocumented(reason) => reason,
        }
    }
}

impl TicketRule {
    /// The purpose that a ticket of this request must have; `None` if no ticket opens it.
    pub(super) fn purpose(self, request: &Request) -> Option<TicketTarget> {
        if request.method() != Method::GET {
            return None;
        }
        match self {
            Self::Get(purpose) => Some(purpose),
            Self::Upgrade(purpose) => request.headers().contains_key(UPGRADE).then_some(purpose),
            Self::Port => {
                let segment = request.uri().path().rsplit('/').next().unwrap_or_default();
                port(segment).map(TicketTarget::Port)
            }
        }
    }
}
