use axum::http::Method;
use http_body_util::BodyExt;
use sandyard_api::bounds;

use super::*;
use crate::audit::digest;
use serde_json::{Value, json};

fn acted(method: Method, uri: &str, route: &str) -> Option<(&'static str, Value)> {
    let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
    action(&request, route)
        .map(|action| (action.call.kind().as_str(), serde_json::to_value(action.call).unwrap()))
}

#[test]
fn what_people_do_is_told_apart_and_what_they_watch_is_not_recorded() {
    let files = "/jobs/{id}/files/{*path}";
    assert_eq!(
        acted(Method::GET, "/jobs/x/files/a/b?stat=1", files),
        Some(("file", json!({ "operation": "stat", "path": "a/b" })))
    );
    assert_eq!(
        acted(Method::DELETE, "/jobs/x/files/a", files),
        Some(("file", json!({ "operation": "remove", "path": "a" })))
    );
    assert_eq!(
        acted(Method::GET, "/jobs/x/desktop/socket?ticket=t&control=1", "/jobs/{id}/desktop/socket"),
        Some(("open", json!({ "what": "desktop", "control": true })))
    );
    assert_eq!(
        acted(Method::GET, "/jobs/x/ports/80?ticket=secret", "/jobs/{id}/ports/{port}"),
        Some(("open", json!({ "what": "ports/80", "method": "GET" })))
    );
    for route in
        ["/jobs/{id}", "/jobs/{id}/events", "/jobs/{id}/logs", "/status/{id}", "/jobs/{id}/audit", "/jobs"]
    {
        assert_eq!(acted(Method::GET, "/jobs/x", route), None, "{route}");
    }
}

#[test]
fn every_route_that_changes_something_is_recorded_somewhere() {
    let in_app = ["/schedule", "/submit", "/jobs/{id}", "/jobs/{id}/cancel", "/jobs/{id}/reply"];
    let document = serde_json::to_value(crate::http::openapi_document("0")).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["post", "put", "patch", "delete"].iter().filter(|method| item.get(**method).is_some())
        {
            let request = Request::builder()
                .method(method.to_uppercase().as_str())
                .uri("/jobs/x/y/z")
                .body(Body::empty());
            let known = in_app.contains(&path.as_str())
                || path == "/mcp"
                || action(&request.unwrap(), path).is_some();
            assert!(known, "{method} {path} leaves no record");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_read_first_arrives_as_it_was() {
    let request = Request::new(Body::from(r#"{"language":"python","code":"1"}"#));
    let (request, facts) = read_first(request).await;
    let bytes = request.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(facts.sha256, Some(digest(&bytes)));
    assert_eq!(facts.language.as_deref(), Some("python"));
    let (request, _) = read_first(Request::new(Body::from(vec![b' '; bounds::BODY_BYTES + 7]))).await;
    assert_eq!(request.into_body().collect().await.unwrap().to_bytes().len(), bounds::BODY_BYTES + 7);
}
