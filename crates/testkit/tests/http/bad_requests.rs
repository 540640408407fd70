//! Bad input: a clear error each, and no job, folder or sandbox left behind.

use sandyard_server::config::AdmissionConfig;
use sandyard_server::http::ServeLimits;
use sandyard_testkit::TestYard;
use serde_json::{Value, json};

use crate::client::{Served, open};

const JSON: &str = "application/json";

#[tokio::test]
async fn every_bad_schedule_is_refused_and_leaves_nothing() {
    let served = Served::start().await;
    let shell = |member: &str, value: Value| {
        let mut body = json!({"kind": "shell", "code": "true"});
        body[member] = value;
        body.to_string()
    };
    let table: Vec<(&str, String, u16, &str)> = vec![
        (JSON, "{nope".into(), 400, "invalid_json"),
        (JSON, String::new(), 400, "invalid_json"),
        (JSON, "\u{feff}{}".into(), 400, "invalid_json"),
        (JSON, "[]".into(), 422, "invalid_type"),
        (JSON, "\"echo\"".into(), 422, "invalid_type"),
        (JSON, "{}".into(), 422, "missing_member"),
        (JSON, json!({"kind": "shell", "code": 5}).to_string(), 422, "invalid_type"),
        (JSON, json!({"kind": "shell", "code": ""}).to_string(), 422, "empty_code"),
        (JSON, json!({"kind": "pyhton", "code": "1"}).to_string(), 422, "unknown_kind"),
        (JSON, json!({"task": "build"}).to_string(), 422, "no_model"),
        ("text/plain", "Build me a todo app".into(), 422, "no_model"),
        ("text/plain", "  ".into(), 422, "empty_task"),
        ("image/png", "x".into(), 415, "unsupported_media_type"),
        ("text/plain; charset=latin1", "x".into(), 415, "unsupported_media_type"),
        (JSON, shell("limit", json!({})), 422, "unknown_member"),
        (JSON, shell("privileged", json!(true)), 422, "privileged_member"),
        (JSON, shell("network", json!("host")), 422, "privileged_member"),
        (JSON, shell("mounts", json!(["/etc"])), 422, "privileged_member"),
        (JSON, shell("image", json!("evil")), 422, "privileged_member"),
        (JSON, shell("git", json!({"url": "https://example.org/x"})), 422, "not_available"),
        (JSON, shell("files", json!({"../x": "y"})), 422, "invalid_value"),
        (JSON, shell("files", json!({"/etc/passwd": "y"})), 422, "invalid_value"),
        (JSON, shell("files", json!({"n".repeat(5000): "y"})), 422, "invalid_value"),
        (JSON, shell("env", json!({"A=B": "x"})), 422, "invalid_value"),
        (JSON, shell("env", json!({"A": "x".repeat(1 << 20)})), 422, "invalid_value"),
        (JSON, shell("limits", json!({"memory_mib": 1e18})), 422, "invalid_value"),
        (JSON, shell("limits", json!({"memory_mib": 4_000_000})), 422, ""),
        (JSON, shell("isolation", json!("moon")), 422, ""),
        (JSON, shell("isolation", json!("vm")), 503, ""),
        (JSON, shell("code", json!("x".repeat(20_000_000))), 413, "too_large"),
        (JSON, format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000)), 400, "invalid_json"),
        (JSON, format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)), 400, "invalid_json"),
    ];
    for (content_type, body, status, code) in table {
        let reply =
            served.request("POST", "/schedule", &[("Content-Type", content_type)], body.as_bytes()).await;
        let shown = &body[..body.len().min(80)];
        assert_eq!(reply.status, status, "{shown}: {}", reply.text());
        let found = reply.code();
        assert!(code.is_empty() || found == code, "{shown}: {found}");
    }
    let untyped = served.request("POST", "/schedule", &[], b"{}").await;
    assert_eq!((untyped.status, untyped.code().as_str()), (415, "unsupported_media_type"));
    let not_utf8 = served.request("POST", "/schedule", &[("Content-Type", "text/plain")], b"\xff\xfe").await;
    assert_eq!((not_utf8.status, not_utf8.code().as_str()), (400, "bad_request"));
    served.expect_nothing().await;
}

#[tokio::test]
async fn a_hint_names_what_was_meant() {
    let served = Served::start().await;
    for (body, named) in [
        (json!({"kind": "shel", "code": "1"}), "`shell`"),
        (json!({"kind": "shell", "code": "1", "limit": {}}), "`limits`"),
        (json!({"kind": "shell", "code": "1", "limits": {"timeout": 5}}), "`limits.timeout_s`"),
        (json!({"task": "build"}), "sandyard demo"),
    ] {
        let reply = served.post("/schedule", &body).await;
        let hint = reply.json()["error"]["hint"].as_str().unwrap_or_default().to_owned();
        assert!(hint.contains(named), "{body}: {hint}");
    }
}

#[tokio::test]
async fn wrong_methods_and_routes_are_told_in_json() {
    let served = Served::start().await;
    let id = "a".repeat(26);
    for (method, path, allowed) in [
        ("GET", "/schedule".to_owned(), "POST"),
        ("DELETE", "/jobs".to_owned(), "GET"),
        ("POST", format!("/jobs/{id}"), "DELETE"),
        ("PUT", format!("/status/{id}"), "GET"),
        ("GET", format!("/jobs/{id}/cancel"), "POST"),
        ("POST", format!("/jobs/{id}/files/x"), "PATCH"),
        ("TRACE", "/jobs".to_owned(), "GET"),
    ] {
        let reply = served.request(method, &path, &[], b"").await;
        assert_eq!((reply.status, reply.code().as_str()), (405, "method_not_allowed"), "{method} {path}");
        assert!(reply.header("allow").unwrap_or_default().contains(allowed), "{method} {path}: {reply:?}");
    }
    for path in ["/nowhere", "/schedule/", "/jobs/x/y/z", "/Schedule", "//jobs", "/jobs;a=b", "/%6aobs"] {
        let reply = served.get(path).await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{path}");
    }
    // W19: a header does not turn one method into another.
    let headers = [("X-HTTP-Method-Override", "DELETE"), ("X-HTTP-Method", "DELETE")];
    let reply = served.request("GET", &format!("/jobs/{id}"), &headers, b"").await;
    assert_eq!(reply.status, 404);
}

#[tokio::test]
async fn f18_unknown_and_malformed_ids_are_told_alike() {
    let served = Served::start().await;
    let unknown = served.get(&format!("/status/{}", "a".repeat(26))).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_job"));
    for id in [
        "x",
        "..",
        "%2e%2e",
        "..%2f..%2fetc",
        "a%00b",
        &"A".repeat(26),
        &"a".repeat(5000),
        "%3Cimg%20src=x%3E",
    ] {
        for (method, rest) in [
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/events"),
            ("GET", "/logs"),
            ("GET", "/download"),
            ("POST", "/cancel"),
        ] {
            let reply = served.request(method, &format!("/jobs/{id}{rest}"), &[], b"").await;
            assert_eq!((reply.status, reply.code().as_str()), (404, "unknown_job"), "{method} {id}{rest}");
            assert_eq!(reply.json()["error"]["message"], unknown.json()["error"]["message"]);
        }
    }
}

#[tokio::test]
async fn bad_queries_and_headers_are_refused() {
    let served = Served::start().await;
    let id = served.schedule(&json!({"kind": "shell", "code": "true"})).await;
    for path in [
        format!("/status/{id}?wiat=3"),
        format!("/status/{id}?wait=-1"),
        format!("/status/{id}?wait=1e9"),
        format!("/status/{id}?wait=1&wait=2"),
        format!("/status/{id}?fields=state,nothing"),
        format!("/jobs/{id}/events?after=x"),
        format!("/jobs/{id}/logs?stream=both"),
        "/jobs?limit=0".to_owned(),
        "/jobs?limit=100000".to_owned(),
        "/jobs?status=done".to_owned(),
        "/jobs?kind=ruby".to_owned(),
        "/jobs?cursor='%20OR%201=1".to_owned(),
    ] {
        assert_eq!(served.get(&path).await.status, 400, "{path}");
    }
    for key in ["", &"k".repeat(256), "\u{fc}"] {
        let headers = [("Content-Type", JSON), ("Idempotency-Key", key)];
        let reply = served.request("POST", "/schedule", &headers, b"{\"kind\":\"session\"}").await;
        assert_eq!(reply.status, 400, "{key}");
    }
    let seen = served.request("GET", &format!("/jobs/{id}/events"), &[("Last-Event-ID", "abc")], b"").await;
    assert_eq!(seen.status, 400);
}

#[tokio::test]
async fn r19_a_queue_that_is_too_long_says_when_to_come_back() {
    let yard = TestYard::with(|config| {
        config.admission = AdmissionConfig { concurrency: 1, queue: 2, ..config.admission.clone() };
    });
    let served = Served::serve(yard.await.unwrap(), open(), ServeLimits::default()).await;
    served.session().await;
    let mut replies = Vec::new();
    for _ in 0..4 {
        replies.push(served.post("/schedule", &json!({"kind": "session"})).await);
    }
    let full = replies.iter().find(|reply| reply.status == 429).expect("the queue has a bound");
    assert!(full.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok()), "{full:?}");
    let jobs = served.get("/jobs").await.json()["jobs"].as_array().unwrap().len();
    assert_eq!(jobs, 1 + replies.iter().filter(|reply| reply.status == 202).count());
}
