//! A fresh session answers its first call: by HTTP, by the command and by a tool of MCP, without a wait in between.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::command::sandyard;
use crate::yard::Yard;

#[tokio::test]
async fn a_fresh_session_answers_its_first_call_over_http() {
    let yard = Yard::start().await;
    let session = json!({"kind": "session"});
    let (id, other) = (yard.schedule(&session).await, yard.schedule(&session).await);
    let (path, refusing_path) = (format!("/jobs/{id}/shell"), format!("/jobs/{other}/shell?wait=0"));
    let body = json!({"command": "echo first"});
    // Sent together, so that at least one finds its sandbox missing.
    let (first, refusing) = tokio::join!(yard.post(&path, &body), yard.post(&refusing_path, &body));
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(first.json::<Value>().await.unwrap()["stdout"], "first\n");
    // Without a wait, the answer depends on how fast the sandbox was: it works, or it is said to be starting.
    if refusing.status() != StatusCode::OK {
        assert_eq!(refusing.status(), StatusCode::CONFLICT);
        let told: Value = refusing.json().await.unwrap();
        assert_eq!(told["error"]["code"], "sandbox_not_live", "{told}");
        assert!(told["error"]["message"].as_str().unwrap().contains("starting"), "{told}");
    }
}

#[tokio::test]
async fn a_fresh_session_answers_its_first_command() {
    let yard = Yard::start().await;
    let made = sandyard(&yard.url, &["run", "-k", "session", "-d"], &[]).await.expect(0);
    let id = made.out.trim();
    sandyard(&yard.url, &["shell", id, "true"], &[]).await.expect(0);
    sandyard(&yard.url, &["shell", id, "exit 5"], &[]).await.expect(5);
}

#[tokio::test]
async fn a_fresh_session_answers_its_first_tool_call() {
    let yard = Yard::start().await;
    let call = async |name: &str, arguments: Value| -> Value {
        let message = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments},
        });
        let request = yard.client.post(format!("{}/mcp", yard.url)).json(&message);
        let answer = request.header("accept", "application/json, text/event-stream").send().await.unwrap();
        let text = answer.text().await.unwrap();
        let body = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        let answer: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{text}"));
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["structuredContent"].clone()
    };
    let scheduled = call("schedule_job", json!({"kind": "session"})).await;
    let ran = call("run_shell", json!({"job_id": scheduled["job_id"], "command": "echo first"})).await;
    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!("first\n"), &json!(0)), "{ran}");
}
