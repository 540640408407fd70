use axum::http::Method;
use sandyard_api::bounds;
use serde_json::{Value, json};

use super::*;
use crate::audit::digest;
use crate::http::request::body::{BodyReader, WholeBody};
use crate::http::routes::{RouteMethod, table};
use crate::http::rules::AccessRule;

/// What the route of a request records about it.
fn recorded(method: Method, uri: &str, route: &str) -> Option<(&'static str, Value)> {
    let wanted = match method.as_str() {
        "GET" => RouteMethod::Get,
        "PUT" => RouteMethod::Put,
        "PATCH" => RouteMethod::Patch,
        "DELETE" => RouteMethod::Delete,
        _ => RouteMethod::Post,
    };
    let rows = table::routes();
    let row = rows.iter().find(|row| row.path == route && row.method == wanted).unwrap();
    let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
    let AuditRule::Recorded(action) = row.rule.audit else { return None };
    action(&request).map(|action| (action.call.kind().as_str(), serde_json::to_value(action.call).unwrap()))
}

#[test]
fn what_people_do_is_told_apart_and_what_they_watch_is_not_recorded() {
    let files = "/jobs/{id}/files/{*path}";
    assert_eq!(
        recorded(Method::GET, "/jobs/x/files/a/b?stat=1", files),
        Some(("file", json!({ "operation": "stat", "path": "a/b" })))
    );
    assert_eq!(
        recorded(Method::DELETE, "/jobs/x/files/a", files),
        Some(("file", json!({ "operation": "remove", "path": "a" })))
    );
    assert_eq!(
        recorded(Method::GET, "/jobs/x/desktop/socket?ticket=t&control=1", "/jobs/{id}/desktop/socket"),
        Some(("open", json!({ "what": "desktop", "control": true })))
    );
    assert_eq!(
        recorded(Method::GET, "/jobs/x/ports/80?ticket=secret", "/jobs/{id}/ports/{port}"),
        Some(("open", json!({ "what": "ports/80", "method": "GET" })))
    );
    assert_eq!(recorded(Method::GET, "/jobs/x/shell", "/jobs/{id}/shell"), None, "no upgrade, no terminal");
    for route in
        ["/jobs/{id}", "/jobs/{id}/events", "/jobs/{id}/logs", "/status/{id}", "/jobs/{id}/audit", "/jobs"]
    {
        assert_eq!(recorded(Method::GET, "/jobs/x", route), None, "{route}");
    }
}

#[test]
fn every_route_that_changes_a_job_is_recorded() {
    for row in table::routes().iter().filter(|row| row.method != RouteMethod::Get) {
        let recorded = matches!(row.rule.audit, AuditRule::InCommit | AuditRule::Recorded(_));
        // What is public, or no route of its own, changes no job.
        let harmless = matches!(row.rule.access, AccessRule::Public) || row.path == "/mcp";
        assert!(recorded || harmless, "{:?} {} leaves no record", row.method, row.path);
    }
}

#[tokio::test]
async fn a_body_that_is_read_first_arrives_as_it_was() {
    let reader = BodyReader::new(0);
    let text = r#"{"language":"python","code":"1"}"#;
    let (request, facts) = read_first(&reader, Request::new(Body::from(text))).await.unwrap();
    assert_eq!(request.extensions().get::<WholeBody>().unwrap().bytes, text);
    assert_eq!(facts.sha256, Some(digest(text.as_bytes())));
    assert_eq!(facts.language.as_deref(), Some("python"));
    let long = Request::new(Body::from(vec![b' '; bounds::BODY_BYTES + 7]));
    assert_eq!(read_first(&reader, long).await.unwrap_err().code(), "too_large");
}
