//! The rules of a route: who may send a request, which tickets open it, and what the audit calls it.

use axum::extract::Request;
use axum::http::Method;
use axum::http::header::UPGRADE;

use super::audit_layer::actions::RecordedAction;
use super::request::extract::port;
use crate::app::TicketTarget;
use crate::auth::AccessScope;

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

/// The rules that are enforced on every request of a route.
#[derive(Clone, Copy)]
pub(super) struct RouteRule {
    pub(super) access: AccessRule,
    pub(super) audit: AuditRule,
    /// True if the path names a job, which the caller must own.
    pub(super) names_job: bool,
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
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Unrecorded(reason) => reason,
            Self::InCommit => "recorded in its commit",
            Self::Recorded(_) => "recorded",
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
