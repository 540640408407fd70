//! The Model Context Protocol by its official client: over HTTP and over standard streams, today's and the older handshake.

use std::process::Stdio;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::origins::{full_yard, modules, root};
use crate::yard::{PATIENCE, Yard};

/// Runs the client; `None` if its modules are not there.
async fn client(arguments: &[&str]) -> Option<()> {
    let Some(modules) = modules("clients").await else {
        eprintln!("skipped: needs the clients modules (scripts/setup.sh test)");
        return None;
    };
    let mut command = Command::new(modules.join("bin/python"));
    command
        .arg(root().join("tests/clients/tools.py"))
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output =
        tokio::time::timeout(2 * PATIENCE, command.output()).await.expect("the client hangs").unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"done\n", "{told}");
    Some(())
}

#[tokio::test]
async fn the_official_client_works_over_http() {
    let Some(yard) = full_yard(&["clients"]).await else { return };
    client(&["http", &yard.url, "full"]).await;
}

#[tokio::test]
async fn the_official_client_works_over_http_with_the_older_handshake() {
    let yard = Yard::start().await;
    client(&["http", &yard.url, "legacy"]).await;
}

#[tokio::test]
async fn the_official_client_works_over_standard_streams() {
    let yard = Yard::start().await;
    let program = env!("CARGO_BIN_EXE_sandyard");
    if client(&["stdio", program, &yard.url]).await.is_some() {
        client(&["stdio", program, &yard.url, "legacy"]).await;
    }
}

fn message(name: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

async fn post(yard: &Yard, headers: &[(&str, &str)], body: String) -> (StatusCode, String) {
    let mut request = yard.client.post(format!("{}/mcp", yard.url)).body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

#[tokio::test]
async fn strangers_and_floods_are_refused_as_everywhere() {
    let yard = Yard::start().await;
    let json = ("content-type", "application/json");
    let accept = ("accept", "application/json, text/event-stream");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let (status, told) = post(&yard, &[json, accept], list.clone()).await;
    assert!(status == StatusCode::OK && told.contains("schedule_job"), "{status} {told}");
    for foreign in [("origin", "http://evil.example"), ("host", "evil.example"), ("origin", "null")] {
        let (status, told) = post(&yard, &[json, accept, foreign], list.clone()).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{foreign:?} {told}");
    }
    for (headers, body, code) in [
        (vec![json], list.clone(), "bad_request"),
        (vec![("content-type", "text/plain"), accept], list.clone(), "unsupported_media_type"),
        (vec![json, accept], " ".repeat(64 * 1024 * 1024), "too_large"),
    ] {
        let (_, told) = post(&yard, &headers, body).await;
        let told: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"));
        assert_eq!(told["error"]["code"], code, "{told}");
    }
    let (_, told) = post(&yard, &[json, accept], message("no_such_tool", &json!({})).to_string()).await;
    assert!(told.contains("there is no tool `no_such_tool`"), "{told}");
    assert_eq!(yard.get("/mcp").await.status(), StatusCode::METHOD_NOT_ALLOWED);
}
