//! What must be true of the whole table.

use std::collections::BTreeSet;

use super::*;
use crate::http::openapi_document;
use crate::http::routes::RouteMethod;
use crate::http::rules::AccessRule;

#[test]
fn every_route_is_documented_under_its_own_path() {
    let document = serde_json::to_value(openapi_document("0")).unwrap();
    let documented: BTreeSet<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
    let rows = routes();
    let routed: BTreeSet<String> = rows
        .iter()
        .filter(|row| !matches!(row.document, Undocumented(_)))
        .map(|row| row.path.replace("{*", "{"))
        .collect();
    assert_eq!(documented, routed);
    for row in &rows {
        let RouteDocument::Operation(operation) = row.document else { continue };
        let operation = operation();
        assert_eq!(operation.path, row.path.replace("{*", "{"));
        let methods = serde_json::to_value(&operation.methods).unwrap();
        let method = format!("{:?}", row.method).to_lowercase();
        let fits = row.method == RouteMethod::Any || methods == serde_json::json!([method]);
        assert!(fits, "{} is documented as {methods}", row.path);
    }
}

/// The public routes, word by word: a new one must be added here by hand, in view of a reviewer.
#[test]
fn w23_nothing_else_is_public() {
    let rows = routes();
    let public: Vec<&str> =
        rows.iter().filter(|row| matches!(row.rule.access, AccessRule::Public)).map(|row| row.path).collect();
    let wanted = [
        "/",
        "/console/{*path}",
        "/docs",
        "/assets/{*path}",
        "/favicon.ico",
        "/openapi.json",
        "/healthz",
        "/readyz",
        "/jobs/{id}/desktop",
        "/jobs/{id}/desktop/",
    ];
    assert_eq!(public, wanted);
    assert!(is_public("/docs") && !is_public("/jobs/{id}") && !is_public("/nowhere"));
}

#[test]
fn what_changes_a_job_needs_more_than_the_right_to_read() {
    for row in routes().iter().filter(|row| row.rule.names_job && row.method != RouteMethod::Get) {
        let reads_only = row.path == "/jobs/{id}/tickets";
        assert!(reads_only || row.rule.access.scope() != Some(ReadJobs), "{:?} {}", row.method, row.path);
    }
}
