//! A job that is finishing: every door refuses changes, and calls that were under way are not acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use sandyard_server::fail_points::FailPoints;
use sandyard_server::http::ServeLimits;
use sandyard_testkit::TestYard;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::client::{PATIENCE, Served, open};
use crate::upstream::Upstream;

/// A yard whose jobs stay in `finishing`, as during the export of a large workspace.
async fn never_finishing() -> Served {
    let yard = TestYard::with(|config| {
        config.fail_points = FailPoints::with(|place| place == "finishing");
    });
    Served::serve(yard.await.unwrap(), open(), ServeLimits::default()).await
}

async fn cancel(served: &Served, id: &str) {
    assert_eq!(served.post(&format!("/jobs/{id}/cancel"), &json!({})).await.status, 200);
    served.wait(id, |status| status["state"] == "finishing").await;
}

fn tool(name: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

#[tokio::test]
async fn every_door_refuses_changes_while_the_workspace_is_saved() {
    let served = never_finishing().await;
    let id = served.session().await;
    served.shell(&id, "echo before > before.txt").await;
    let page = Upstream::page().await;
    cancel(&served, &id).await;
    let json_type = [("Content-Type", "application/json")];
    let shell = json!({"command": "echo x > x"}).to_string();
    let code = json!({"language": "bash", "code": "echo x > x"}).to_string();
    let edit = json!({"edits": [{"old": "before", "new": "after"}]}).to_string();
    let kernel = json!({"language": "bash"}).to_string();
    let move_to = json!({"move": "after.txt"}).to_string();
    let proxy = format!("/proxy/{}/", page.port);
    for (method, path, body) in [
        ("POST", "/shell", shell.as_str()),
        ("GET", "/processes/main", ""),
        ("POST", "/processes/main/signal", r#"{"signal": "TERM"}"#),
        ("POST", "/code", code.as_str()),
        ("POST", "/kernels", kernel.as_str()),
        ("PATCH", "/files/before.txt", edit.as_str()),
        ("PATCH", "/files/before.txt", move_to.as_str()),
        ("DELETE", "/files/before.txt", ""),
        ("GET", proxy.as_str(), ""),
    ] {
        let reply = served.request(method, &format!("/jobs/{id}{path}"), &json_type, body.as_bytes()).await;
        // A route that does not exist would refuse too, with another status.
        assert_eq!((reply.status, reply.code().as_str()), (409, "finishing"), "{method} {path}: {reply:?}");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    let put = served.request("PUT", &format!("/jobs/{id}/files/new.txt"), &[], b"late").await;
    assert_eq!((put.status, put.code().as_str()), (409, "finishing"));
    assert!(page.seen().is_empty(), "a program in the sandbox was reached");
    let accept = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let call = tool("run_shell", &json!({"job_id": id, "command": "echo x > x"})).to_string();
    let answer = served.request("POST", "/mcp", &accept, call.as_bytes()).await.text();
    assert!(answer.contains("finishing") && answer.contains("\"isError\":true"), "{answer}");
    let url = format!("ws://{}/jobs/{id}/shell", served.address);
    assert!(tokio_tungstenite::connect_async(url).await.is_err(), "a terminal opened");
    // Reading goes on.
    let read = served.get(&format!("/jobs/{id}/files/before.txt")).await;
    assert_eq!((read.status, read.text().as_str()), (200, "before\n"));
}

#[tokio::test]
async fn calls_under_way_are_not_acknowledged_once_the_job_is_finishing() {
    let served = Arc::new(never_finishing().await);
    let id = served.session().await;
    let url = format!("ws://{}/jobs/{id}/shell", served.address);
    let (mut terminal, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    assert!(matches!(terminal.next().await, Some(Ok(Message::Text(_)))), "the name of its process");
    assert!(matches!(terminal.next().await, Some(Ok(Message::Binary(_)))), "a prompt");
    let (client, job) = (Arc::clone(&served), id.clone());
    let command = tokio::spawn(async move {
        // Killed with the job or cut off; never acknowledged with success.
        let body = json!({"command": "echo started > started; sleep 300; echo late > late"});
        client.post(&format!("/jobs/{job}/shell"), &body).await
    });
    let mut upload = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "PUT /jobs/{id}/files/half.bin HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n",
        served.address
    );
    upload.write_all(head.as_bytes()).await.unwrap();
    upload.write_all(&vec![b'x'; 500_000]).await.unwrap();
    let held = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&held);
    let silent = Upstream::with(move |mut stream, _| {
        let asked = Arc::clone(&asked);
        async move {
            let _ = stream.read(&mut [0; 1024]).await;
            asked.store(true, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
    })
    .await;
    let (client, path) = (Arc::clone(&served), format!("/jobs/{id}/proxy/{}/", silent.port));
    let page = tokio::spawn(async move { client.get(&path).await });
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !held.load(Ordering::Relaxed)
        || served.get(&format!("/jobs/{id}/files/started")).await.status != 200
    {
        assert!(tokio::time::Instant::now() < deadline, "the calls did not begin");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    cancel(&served, &id).await;
    let _ = upload.write_all(&vec![b'x'; 500_000]).await;
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, upload.read_to_end(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 409") && answer.contains("finishing"), "{answer}");
    let page = tokio::time::timeout(PATIENCE, page).await.unwrap().unwrap();
    assert_eq!((page.status, page.code().as_str()), (409, "finishing"));
    let command = tokio::time::timeout(PATIENCE, command).await.unwrap().unwrap();
    let killed = command.status == 200 && command.json()["exit_code"] != 0;
    assert!(killed || (command.status == 409 && command.code() == "finishing"), "{command:?}");
    let closed = async { while let Some(Ok(_)) = terminal.next().await {} };
    tokio::time::timeout(PATIENCE, closed).await.expect("the terminal stays open");
    assert_eq!(served.get(&format!("/jobs/{id}/files/half.bin")).await.status, 404);
}
