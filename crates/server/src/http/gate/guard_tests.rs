//! Which ticket opens which route, by the table.

use axum::body::Body;
use axum::http::header::UPGRADE;

use super::*;
use crate::app::TicketTarget;
use crate::http::routes::{RouteMethod, table};

/// The purpose of the ticket that the route of a path takes from this request.
fn purpose(route: &str, path: &str, upgrade: bool) -> Option<TicketTarget> {
    let rows = table::routes();
    let row = rows.iter().find(|row| row.path == route && row.method == RouteMethod::Get)?;
    let uri = format!("{path}?ticket=t").replace("ID", &"a".repeat(26));
    let mut request = Request::builder().uri(uri).body(Body::empty()).unwrap();
    if upgrade {
        request.headers_mut().insert(UPGRADE, "websocket".parse().unwrap());
    }
    row.rule.access.ticket().and_then(|rule| ticket_of(rule, &request)).map(|(_, purpose, _)| purpose)
}

#[test]
fn w16_a_ticket_is_looked_at_on_its_own_routes_only() {
    let ports = "/jobs/{id}/ports/{port}";
    for (route, path, upgrade, wanted) in [
        ("/jobs/{id}/download", "/jobs/ID/download", false, TicketTarget::Download),
        ("/jobs/{id}/shell", "/jobs/ID/shell", true, TicketTarget::Pty),
        ("/jobs/{id}/desktop/socket", "/jobs/ID/desktop/socket", true, TicketTarget::Desktop),
        ("/jobs/{id}/lab", "/jobs/ID/lab", false, TicketTarget::Lab),
        (ports, "/jobs/ID/ports/5173", false, TicketTarget::Port(5173)),
    ] {
        assert_eq!(purpose(route, path, upgrade), Some(wanted), "{path}");
    }
    for (route, path) in [
        ("/jobs/{id}/shell", "/jobs/ID/shell"),
        ("/jobs/{id}/desktop/socket", "/jobs/ID/desktop/socket"),
        ("/jobs/{id}/download", "/jobs/x/download"),
        (ports, "/jobs/ID/ports/0"),
    ] {
        assert_eq!(purpose(route, path, false), None, "{path}");
    }
    let opened: Vec<&str> =
        table::routes().iter().filter(|row| row.rule.access.ticket().is_some()).map(|row| row.path).collect();
    let wanted = [
        "/jobs/{id}/download",
        "/jobs/{id}/explained",
        "/jobs/{id}/diagram.svg",
        "/jobs/{id}/desktop/socket",
        "/jobs/{id}/shell",
        "/jobs/{id}/processes/{process}",
        "/jobs/{id}/lab",
        "/jobs/{id}/ports/{port}",
    ];
    assert_eq!(opened, wanted, "no other route takes a ticket");
}

#[test]
fn w16_a_ticket_needs_a_get() {
    let id = "a".repeat(26);
    for method in [Method::HEAD, Method::POST] {
        let uri = format!("/jobs/{id}/download?ticket=t");
        let request = Request::builder().method(method.clone()).uri(uri).body(Body::empty()).unwrap();
        assert!(ticket_of(TicketRule::Get(TicketTarget::Download), &request).is_none(), "{method}");
    }
}
