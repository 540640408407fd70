//! Tools on a live sandbox: shell and files.

use serde_json::json;

use crate::client::Served;

#[tokio::test]
async fn shell_answers_with_both_outputs_and_the_code() {
    let served = Served::start().await;
    let id = served.session().await;
    let answer = served.shell(&id, "echo out; echo err >&2; exit 3").await;
    let process = answer["process"].clone();
    let expected =
        json!({"process": process, "stdout": "out\n", "stderr": "err\n", "exit_code": 3, "timed_out": false});
    assert_eq!((answer, process.is_string()), (expected, true));
    let body = json!({"command": "cat; echo $X", "stdin": "typed\n", "env": {"X": "y"}});
    assert_eq!(served.post(&format!("/jobs/{id}/shell"), &body).await.json()["stdout"], "typed\ny\n");
    let body = json!({"command": "echo partial; sleep 100", "timeout_s": 1});
    let answer = served.post(&format!("/jobs/{id}/shell"), &body).await.json();
    assert_eq!((&answer["stdout"], &answer["timed_out"]), (&json!("partial\n"), &json!(true)));
    let body = json!({"command": "echo x; sleep 100", "idle_timeout_s": 1});
    assert_eq!(served.post(&format!("/jobs/{id}/shell"), &body).await.json()["timed_out"], true);
}

#[tokio::test]
async fn r9_long_output_is_bounded_and_large_input_does_not_block() {
    let served = Served::start().await;
    let id = served.session().await;
    let answer =
        served.shell(&id, "echo begin; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end").await;
    let stdout = answer["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("begin\n") && stdout.ends_with("x\nend\n"));
    assert!(stdout.len() < 1_200_000 && answer["truncated_bytes"].as_u64().unwrap() > 3_000_000);
    let input = "line of input\n".repeat(200_000);
    let body = json!({"command": "tee /dev/stderr | wc -c", "stdin": input});
    let answer = served.post(&format!("/jobs/{id}/shell"), &body).await.json();
    assert_eq!(answer["stdout"].as_str().unwrap().trim(), input.len().to_string());
    let body = json!({"command": "echo done", "stdin": input});
    assert_eq!(served.post(&format!("/jobs/{id}/shell"), &body).await.json()["stdout"], "done\n");
}

#[tokio::test]
async fn shell_streams_events() {
    let served = Served::start().await;
    let id = served.session().await;
    let headers = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
    let body = json!({"command": "echo one; echo two >&2; printf '\\377'; exit 4"}).to_string();
    let reply = served.request("POST", &format!("/jobs/{id}/shell"), &headers, body.as_bytes()).await;
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let text = reply.text();
    for part in [
        "event: started",
        "\"process\":\"p",
        "id: 5,4",
        "event: stdout",
        "event: stderr",
        "\"text\":\"one\\n",
        "\"text\":\"two\\n",
        "\"base64\"",
        "\"exit_code\":4",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn files_are_written_read_edited_moved_and_removed() {
    let served = Served::start().await;
    let id = served.session().await;
    let at = |path: &str| format!("/jobs/{id}/files/{path}");
    let put = served.request("PUT", &at("deep/er/note.txt"), &[], b"one two three").await;
    assert_eq!((put.status, &put.json()["size"]), (200, &json!(13)));
    let once = served.request("PUT", &at("deep/er/note.txt"), &[("If-None-Match", "*")], b"x").await;
    assert_eq!((once.status, once.code().as_str()), (412, "precondition_failed"));
    let chunked = b"PUT /jobs/ID/files/chunked.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let request = String::from_utf8_lossy(chunked).replace("ID", &id);
    assert_eq!(served.send(request.as_bytes()).await.status, 200);
    assert_eq!(served.get(&at("chunked.txt")).await.text(), "abcde");
    let part = served.request("GET", &at("deep/er/note.txt"), &[("Range", "bytes=4-6")], b"").await;
    assert_eq!((part.status, part.text().as_str()), (206, "two"));
    let outside = served.request("GET", &at("deep/er/note.txt"), &[("Range", "bytes=50-")], b"").await;
    assert_eq!(outside.status, 416);
    let head = served.request("HEAD", &at("deep/er/note.txt"), &[], b"").await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("13"), 0));
    let tag = head.header("etag").unwrap().to_owned();
    let known = served.request("GET", &at("deep/er/note.txt"), &[("If-None-Match", &tag)], b"").await;
    assert_eq!(known.status, 304);
    let json_type = [("Content-Type", "application/json")];
    let edit = br#"{"edits": [{"old": "two", "new": "2"}]}"#;
    assert_eq!(served.request("PATCH", &at("deep/er/note.txt"), &json_type, edit).await.status, 200);
    let again = served.request("PATCH", &at("deep/er/note.txt"), &json_type, edit).await;
    assert_eq!((again.status, again.code().as_str()), (409, "edit_mismatch"));
    let moved =
        served.request("PATCH", &at("deep/er/note.txt"), &json_type, br#"{"move": "moved.txt"}"#).await;
    assert_eq!((moved.status, &moved.json()["path"]), (200, &json!("moved.txt")));
    assert_eq!(served.get(&at("moved.txt")).await.text(), "one 2 three");
    let stat = served.get(&at("moved.txt?stat=1")).await.json();
    assert_eq!((&stat["kind"], &stat["mode"]), (&json!("file"), &json!("0644")));
    let found = served.get(&at("?search=2%20three")).await.json();
    assert_eq!((&found["hits"][0]["path"], &found["hits"][0]["line"]), (&json!("moved.txt"), &json!(1)));
    let listing = served.get(&at("")).await.json();
    let names: Vec<_> =
        listing["entries"].as_array().unwrap().iter().map(|entry| entry["name"].clone()).collect();
    assert_eq!(names, ["chunked.txt", "deep", "moved.txt"]);
    let kept = served.request("DELETE", &at("deep"), &[], b"").await;
    assert_eq!((kept.status, kept.code().as_str()), (409, "not_empty"));
    assert_eq!(served.request("DELETE", &at("deep?recursive=1"), &[], b"").await.status, 204);
    assert_eq!(served.get(&at("deep")).await.status, 404);
    assert_eq!(served.request("DELETE", &at(""), &[], b"").await.status, 400);
    assert_eq!(served.request("PUT", &at("made/"), &[], b"").await.status, 200);
    assert_eq!(served.get(&at("made?stat=1")).await.json()["kind"], "directory");
}

#[tokio::test]
async fn a_live_folder_comes_as_an_archive() {
    let served = Served::start().await;
    let id = served.session().await;
    served
        .shell(&id, "mkdir -p src; echo hi > src/a.txt; ln -s /etc/passwd src/link; echo no > outside")
        .await;
    let reply = served.get(&format!("/jobs/{id}/files/src?archive=zip")).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/zip")));
    assert_eq!(&reply.body[..2], b"PK");
    let text = reply.text();
    assert!(text.contains("a.txt") && text.contains("link") && !text.contains("outside"));
    assert_eq!(served.get(&format!("/jobs/{id}/files/nothing?archive=zip")).await.status, 404);
    assert_eq!(std::fs::read_dir(served.yard.data().join("scratch")).unwrap().count(), 0);
}
