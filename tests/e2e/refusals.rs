//! Bad input: a clear error each, and no job, folder or sandbox left behind.

use serde_json::json;

use crate::yard::Yard;

#[tokio::test]
async fn every_refusal_is_clear_and_leaves_nothing() {
    let yard = Yard::start().await;
    let json_type = "application/json";
    let huge = format!("{{\"kind\": \"shell\", \"code\": \"{}\"}}", "x".repeat(20_000_000));
    let cases: Vec<(&str, &str, String, u16, &str)> = vec![
        ("not JSON", json_type, "{nope".into(), 400, ""),
        ("wrong content type", "image/png", "x".into(), 415, ""),
        ("unknown kind", json_type, json!({"kind": "pyhton", "code": "1"}).to_string(), 422, "python"),
        (
            "unknown member",
            json_type,
            json!({"kind": "shell", "code": "1", "limit": {}}).to_string(),
            422,
            "limits",
        ),
        (
            "privileged member",
            json_type,
            json!({"kind": "shell", "code": "1", "privileged": true}).to_string(),
            422,
            "",
        ),
        ("wrong type", json_type, json!({"kind": "shell", "code": 5}).to_string(), 422, "code"),
        ("empty code", json_type, json!({"kind": "shell", "code": ""}).to_string(), 422, "code"),
        (
            "escaping file",
            json_type,
            json!({"kind": "shell", "code": "1", "files": {"../x": "y"}}).to_string(),
            422,
            "",
        ),
        ("too large", json_type, huge, 413, ""),
        ("a task without a model", "text/plain", "Build me a todo app".into(), 422, ""),
        (
            "an unknown floor",
            json_type,
            json!({"kind": "shell", "code": "1", "isolation": "moon"}).to_string(),
            422,
            "",
        ),
    ];
    for (name, content_type, body, expected, named) in cases {
        let request = yard.client.post(format!("{}/schedule", yard.url)).header("content-type", content_type);
        let response = request.body(body).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        assert_eq!(status, expected, "{name}: {text}");
        let error: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(
            error["error"]["code"].is_string() && error["error"]["request_id"].is_string(),
            "{name}: {text}"
        );
        assert!(text.contains(named), "{name} does not name `{named}`: {text}");
    }
    assert_eq!(yard.get("/status/aaaaaaaaaaaaaaaaaaaaaaaaaa").await.status(), 404);
    assert_eq!(yard.get("/jobs/..%2f..%2fetc").await.status(), 404);
    assert_eq!(yard.get("/schedule").await.status(), 405);
    assert_eq!(yard.get("/nowhere").await.status(), 404);
    assert_eq!(yard.get_json("/jobs").await["jobs"], json!([]));
    let folders = std::fs::read_dir(yard.data().join("jobs")).map_or(0, Iterator::count);
    assert_eq!(folders, 0);
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn a_floor_that_can_not_be_met_is_refused() {
    let yard = Yard::start().await;
    let response = yard.post("/schedule", &json!({"kind": "shell", "code": "true", "isolation": "vm"})).await;
    assert_eq!(response.status(), 503);
    let error: serde_json::Value = response.json().await.unwrap();
    assert!(error["error"]["hint"].is_string(), "{error}");
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let yard = Yard::start().await;
    let url = format!("{}/jobs", yard.url);
    for (header, value) in [
        ("Host", "evil.example"),
        ("Origin", "http://evil.example"),
        ("Origin", "http://8888-abc.localhost:8000"),
    ] {
        let response = yard.client.get(&url).header(header, value).send().await.unwrap();
        assert_eq!(response.status(), 403, "{header}: {value}");
    }
    let tunnel = yard.client.get(&url).header("Host", "localhost:9999").send().await.unwrap();
    assert_eq!(tunnel.status(), 200);
}
