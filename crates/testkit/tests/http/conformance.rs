//! The OpenAPI document and the server agree: every documented operation answers, and never with a fault of the server.

use serde_json::{Value, json};

use crate::client::Served;

#[tokio::test]
async fn w25_every_documented_operation_answers() {
    let served = Served::start().await;
    let id = served.session().await;
    let document = served.get("/openapi.json").await.json();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let target = path.replace("{id}", &id).replace("{port}", "80").replace("{path}", "nothing");
            let target = target.replace("{rest}", "x").replace("{kernel}", "k").replace("{name}", "page.css");
            // Two end the session that the others need, and two answer for as long as it lives.
            if path.ends_with("/cancel")
                || (path == "/jobs/{id}" && method == "delete")
                || path.ends_with("/events")
                || path.ends_with("/stats")
            {
                continue;
            }
            let body = if operation.get("requestBody").is_some() { "{}" } else { "" };
            let headers = [("Content-Type", "application/json")];
            let reply = served.request(&method.to_uppercase(), &target, &headers, body.as_bytes()).await;
            let shown =
                format!("{method} {path}: {} {}", reply.status, &reply.text()[..reply.text().len().min(200)]);
            // Nothing listens on the port of a session that runs nothing.
            let no_program = path.contains("/proxy/") && reply.status == 502;
            assert!(reply.status < 500 || reply.status == 501 || no_program, "{shown}");
            assert_ne!(reply.status, 405, "{shown}");
            if reply.status >= 400 {
                assert_ne!(reply.code(), "not_found", "{shown}");
            }
            let documented = operation["responses"].get(reply.status.to_string()).is_some();
            assert!(documented || (400..=422).contains(&reply.status), "not documented: {shown}");
        }
    }
}

#[tokio::test]
async fn an_unknown_job_has_no_memory() {
    let served = Served::start().await;
    let reply = served.get(&format!("/jobs/{}/recall", "a".repeat(26))).await;
    assert_eq!((reply.status, reply.code().as_str()), (404, "unknown_job"));
}

#[tokio::test]
async fn a_status_has_every_member_of_the_contract() {
    let served = Served::start().await;
    let id = served.schedule(&json!({"kind": "shell", "code": "echo hi", "name": "n"})).await;
    let status = served.wait_end(&id).await;
    let members: Vec<&str> = status.as_object().unwrap().keys().map(String::as_str).collect();
    for member in [
        "job_id",
        "name",
        "kind",
        "status",
        "state",
        "sandbox",
        "reason",
        "question",
        "isolation",
        "created_at",
        "started_at",
        "finished_at",
        "expires_at",
        "stdout",
        "stderr",
        "exit_code",
        "error",
        "summary",
        "download_url",
        "explanation",
        "desktop_url",
        "lab_url",
        "usage",
    ] {
        assert!(members.contains(&member), "{member} is missing: {status}");
    }
    let usage: Vec<&str> = status["usage"].as_object().unwrap().keys().map(String::as_str).collect();
    for member in ["cpu_s", "peak_memory_bytes", "tokens_in", "tokens_out", "usd", "egress_bytes"] {
        assert!(usage.contains(&member), "{member} is missing");
    }
    assert_eq!(status["download_url"], json!(format!("/jobs/{id}/download")));
    assert_eq!(status["question"], Value::Null);
}
