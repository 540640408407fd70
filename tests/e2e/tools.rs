//! Tools on a live sandbox: shell, files, terminal.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::yard::Yard;

#[tokio::test]
async fn shell_answers_with_both_outputs_and_the_code() {
    let yard = Yard::start().await;
    let id = yard.session().await;
    let answer = yard.shell(&id, "echo out; echo err >&2; exit 3").await;
    let process = answer["process"].clone();
    let expected =
        json!({"process": process, "stdout": "out\n", "stderr": "err\n", "exit_code": 3, "timed_out": false});
    assert_eq!((answer, process.is_string()), (expected, true));
    let body = json!({"command": "cat; echo $X; pwd", "stdin": "typed\n", "env": {"X": "y"}, "cwd": "/tmp"});
    let answer = yard.post_json(&format!("/jobs/{id}/shell"), &body).await;
    assert_eq!(answer["stdout"], "typed\ny\n/tmp\n");
    let body = json!({"command": "echo partial; sleep 100", "timeout_s": 1});
    let answer = yard.post_json(&format!("/jobs/{id}/shell"), &body).await;
    assert_eq!((&answer["stdout"], &answer["timed_out"]), (&json!("partial\n"), &json!(true)));
    yard.delete(&id).await;
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn shell_streams() {
    let yard = Yard::start().await;
    let id = yard.session().await;
    let request =
        yard.client.post(format!("{}/jobs/{id}/shell", yard.url)).header("Accept", "text/event-stream");
    let text = request
        .json(&json!({"command": "echo one; echo two >&2"}))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(text.contains("event: stdout") && text.contains("one"), "{text}");
    assert!(text.contains("event: stderr") && text.contains("two"), "{text}");
}

#[tokio::test]
async fn a_terminal_takes_input_and_a_new_size() {
    let yard = Yard::start().await;
    let id = yard.session().await;
    let url = format!("{}/jobs/{id}/shell", yard.url.replace("http://", "ws://"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    socket.send(Message::text(json!({"resize": {"columns": 123, "rows": 45}}).to_string())).await.unwrap();
    socket.send(Message::binary("stty size; tty; exit 5\n".as_bytes().to_vec())).await.unwrap();
    let mut screen = String::new();
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Binary(bytes) => screen.push_str(&String::from_utf8_lossy(&bytes)),
            Message::Text(text) => screen.push_str(&text),
            _ => {}
        }
    }
    assert!(screen.contains("45 123"), "{screen}");
    assert!(screen.contains("/dev/pts/"), "{screen}");
}

#[tokio::test]
async fn files_are_written_read_edited_moved_and_removed() {
    let yard = Yard::start().await;
    let id = yard.session().await;
    let at = |path: &str| format!("{}/jobs/{id}/files/{path}", yard.url);
    let put = yard.client.put(at("deep/er/note.txt")).body("one two three").send().await.unwrap();
    assert!(put.status().is_success(), "{}", put.text().await.unwrap());
    assert_eq!(
        yard.shell(&id, "cat deep/er/note.txt; stat -c %U deep/er/note.txt").await["stdout"],
        "one two threeagent\n"
    );
    let part = yard.client.get(at("deep/er/note.txt")).header("Range", "bytes=4-6").send().await.unwrap();
    assert_eq!((part.status().as_u16(), part.text().await.unwrap().as_str()), (206, "two"));
    let edit = json!({"edits": [{"old": "two", "new": "2"}]});
    assert!(
        yard.client.patch(at("deep/er/note.txt")).json(&edit).send().await.unwrap().status().is_success()
    );
    let missing = yard.client.patch(at("deep/er/note.txt")).json(&edit).send().await.unwrap();
    assert_eq!(missing.status(), 409);
    let moved =
        yard.client.patch(at("deep/er/note.txt")).json(&json!({"move": "moved.txt"})).send().await.unwrap();
    assert!(moved.status().is_success());
    assert_eq!(yard.get(&format!("/jobs/{id}/files/moved.txt")).await.text().await.unwrap(), "one 2 three");
    let listing: Value = yard.get_json(&format!("/jobs/{id}/files/")).await;
    assert!(listing.to_string().contains("moved.txt"), "{listing}");
    assert_eq!(yard.client.delete(at("deep")).send().await.unwrap().status(), 409);
    assert!(yard.client.delete(at("deep?recursive=1")).send().await.unwrap().status().is_success());
    assert_eq!(yard.client.get(at("deep")).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn links_never_lead_out_of_the_workspace() {
    let yard = Yard::start().await;
    let id = yard.session().await;
    yard.shell(
        &id,
        "ln -s /etc/passwd out; ln -s loop loop; ln -s / root; echo in > in.txt; ln -s in.txt inside",
    )
    .await;
    for path in
        ["out", "loop", "root/etc/passwd", "../etc/passwd", "%2e%2e/etc/passwd", "..%2fetc%2fpasswd", "a%00b"]
    {
        let url = format!("{}/jobs/{id}/files/{path}", yard.url);
        let response = raw_get(&url).await;
        assert!(response.starts_with("HTTP/1.1 4"), "{path}: {response}");
        assert!(!response.contains("root:x:0"), "{path} leaked: {response}");
    }
    assert_eq!(yard.get(&format!("/jobs/{id}/files/inside")).await.text().await.unwrap(), "in\n");
}

/// A client that does not tidy the path, as an attacker's would not.
async fn raw_get(url: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
