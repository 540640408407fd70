//! A route: one row that says which request reaches which handler, who may send it, what the audit calls it, and where the
//! OpenAPI document has it.
//!
//! [`Route::new`] takes all of it and has no defaults, so a route without an access rule, without a word for the audit or
//! without a place in the document does not compile. `gate` enforces the rules, [`table`] has the rows.

pub(super) mod table;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, any, on};
use utoipa::__dev::{SchemaReferences, Tags};
use utoipa::openapi::path::{HttpMethod, Operation};
use utoipa::openapi::{RefOr, Schema};

use super::rules::{AccessRule, AuditRule, RouteRule};
use super::{HttpState, gate};

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

impl RouteDocument {
    fn words(&self) -> &'static str {
        match self {
            Self::Operation(_) => "documented",
            Self::Undocumented(reason) => reason,
        }
    }
}
