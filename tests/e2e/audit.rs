//! The audit of real jobs: what is in it, that it checks out without a server, and that a changed byte is found and named.

use std::io::{Cursor, Read, Write};
use std::process::Output;

use sandyard_server::audit::verify_lines;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::process::Command;
use zip::write::SimpleFileOptions;

use crate::egress::{CURL, neighbour};
use crate::recording::{call, finish, replay, shell};
use crate::yard::Yard;

/// The records of a job, checked.
pub(crate) async fn records(yard: &Yard, id: &str) -> Vec<Value> {
    let text = yard.get(&format!("/jobs/{id}/audit")).await.text().await.unwrap();
    let verdict = verify_lines(&text, None).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(verdict.faults.is_empty(), "{:?}\n{text}", verdict.faults);
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.pop();
    lines
}

/// Facts of one kind that have all of these members.
fn facts<'a>(records: &'a [Value], kind: &str, wanted: &Value) -> Vec<&'a Value> {
    let wanted = wanted.as_object().unwrap();
    let fits = |facts: &Value| wanted.iter().all(|(name, value)| facts[name] == *value);
    records
        .iter()
        .filter(|record| record["kind"] == kind)
        .map(|record| &record["facts"])
        .filter(|facts| fits(facts))
        .collect()
}

/// `sandyard audit verify`, where no server is.
async fn verify(arguments: &[&str]) -> (bool, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_sandyard"))
        .args(["--url", "http://127.0.0.1:9", "audit", "verify"])
        .args(arguments)
        .output()
        .await
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    (status.success(), text)
}

/// The same archive with one file changed.
fn rewritten(zip: &[u8], name: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(Cursor::new(zip)).unwrap();
    let mut target = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for place in 0..archive.len() {
        let mut entry = archive.by_index(place).unwrap();
        if entry.name().unwrap() != name {
            target.raw_copy_file(entry).unwrap();
            continue;
        }
        let mode = entry.unix_mode().unwrap() & 0o777;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        target.start_file(name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
        target.write_all(&change(bytes)).unwrap();
    }
    target.finish().unwrap().into_inner()
}

#[tokio::test]
async fn the_audit_of_a_task_is_whole_and_a_changed_byte_is_named() {
    let port = neighbour();
    let private = format!("localhost:{port}=127.0.0.1,localhost:{port}=::1");
    let write = call("files", &json!({ "action": "write", "path": "src/a.txt", "content": "one\n" }));
    let (_recording, model) = replay(&[
        vec![write],
        vec![shell(&format!(
            "{CURL} http://localhost:{port}/ > got.txt; {CURL} http://example.com/; ln -s a.txt src/link"
        ))],
        vec![finish("Done.")],
    ]);
    let environment = [("SANDYARD_EGRESS_PRIVATE", std::path::Path::new(&private))];
    let yard = Yard::start_in(&std::env::temp_dir(), &["--model", &model], &environment).await;
    let status = yard.run(&json!({ "task": "Fetch it", "egress": [format!("localhost:{port}")] })).await;
    assert_eq!(status["state"], "succeeded", "{status}\n{}", yard.log());
    let id = status["job_id"].as_str().unwrap();
    let told = records(&yard, id).await;
    let count = |kind: &str, wanted: Value| facts(&told, kind, &wanted).len();
    assert_eq!(count("schedule", json!({ "by": "local", "kind": "task" })), 1, "{told:?}");
    let target = format!("localhost:{port}");
    assert_eq!(count("egress", json!({ "target": target, "decision": "allowed" })), 1, "{told:?}");
    assert_eq!(count("egress", json!({ "target": target, "decision": "closed" })), 1, "{told:?}");
    assert_eq!(count("egress", json!({ "target": "example.com:80", "decision": "refused" })), 1, "{told:?}");
    assert_eq!(
        count("step", json!({ "tool": "files", "action": "write", "path": "src/a.txt" })),
        1,
        "{told:?}"
    );
    // `finish` is the last word, after which no step ends.
    assert_eq!(
        (count("step", json!({})), count("step_ended", json!({ "failed": false }))),
        (3, 2),
        "{told:?}"
    );
    assert_eq!(count("model", json!({ "outcome": "answered" })), 3, "{told:?}");
    assert_eq!((count("export", json!({})), count("artifact", json!({}))), (1, 1), "{told:?}");
    assert_eq!(count("state", json!({ "state": "starting", "driver": "native" })), 1, "{told:?}");
    let last = told.last().unwrap();
    assert_eq!((&last["kind"], &last["facts"]["state"]), (&json!("state"), &json!("succeeded")));
    assert_eq!(status["audit"]["head"], last["hash"], "the status shows the head");

    let zip = yard.download(id).await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let whole = path("whole.zip", &zip);
    let version: Value = yard.get("/version").await.json().await.unwrap();
    let key = version["audit_key"].as_str().unwrap();
    let (right, text) = verify(&[&whole, "--key", key]).await;
    assert!(right && text.contains("in order"), "{text}");
    let (right, text) = verify(&[&whole, "--key", &"0".repeat(64)]).await;
    assert!(!right && text.contains("not the expected"), "{text}");
    let altered = rewritten(&zip, ".sandyard/audit.jsonl", |bytes| {
        String::from_utf8(bytes).unwrap().replacen("src/a.txt", "src/b.txt", 1).into_bytes()
    });
    let record = told.iter().find(|record| record.to_string().contains("src/a.txt")).unwrap();
    let (right, text) = verify(&[&path("altered.zip", &altered)]).await;
    assert!(!right && text.contains(&format!("record {} was altered", record["number"])), "{text}");
    let cut = rewritten(&zip, ".sandyard/audit.jsonl", |bytes| {
        let text = String::from_utf8(bytes).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.remove(lines.len() - 2);
        lines.join("\n").into_bytes()
    });
    let (right, text) = verify(&[&path("cut.zip", &cut)]).await;
    assert!(!right && text.contains("the end was cut off"), "{text}");
    let other = rewritten(&zip, "got.txt", |_| b"hullo\n".to_vec());
    let (right, text) = verify(&[&path("other.zip", &other)]).await;
    assert!(!right && text.contains("the file `got.txt` was altered"), "{text}");
}

#[tokio::test]
async fn what_people_do_in_a_session_is_recorded_across_kills_of_the_server() {
    let mut yard = Yard::start().await;
    let id = yard.schedule(&json!({ "kind": "session" })).await;
    yard.wait_for(&id, |status| status["sandbox"] == "live").await;
    let url = format!("{}/jobs/{id}/files/note.txt", yard.url);
    assert!(yard.client.put(&url).body("secret words").send().await.unwrap().status().is_success());
    assert_eq!(yard.client.get(&url).send().await.unwrap().text().await.unwrap(), "secret words");
    yard.crash_and_serve().await;
    yard.wait_for(&id, |status| status["sandbox"] == "live").await;
    yard.shell(&id, "rm note.txt; echo hello > made.txt; exit 3").await;
    let ticket = yard.post(&format!("/jobs/{id}/tickets"), &json!({ "for": "pty" })).await;
    assert!(ticket.status().is_success());
    let sha256 =
        |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // The look at the workspace and the results come a moment after the answers.
    let told = loop {
        let told = records(&yard, &id).await;
        let looked =
            facts(&told, "workspace", &json!({})).iter().any(|facts| facts.to_string().contains("made.txt"));
        if looked && facts(&told, "result", &json!({ "kind": "ticket" })).len() == 1 {
            break told;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let write = facts(&told, "file", &json!({ "operation": "write", "path": "note.txt", "by": "local" }));
    let read = facts(&told, "file", &json!({ "operation": "read", "path": "note.txt" }));
    assert_eq!((write.len(), read.len()), (1, 1), "{told:?}");
    let outcome = json!({ "exit_code": 3, "timed_out": false });
    assert_eq!(facts(&told, "result", &json!({ "kind": "shell", "outcome": outcome })).len(), 1, "{told:?}");
    assert_eq!(facts(&told, "ticket", &json!({ "for": "pty" })).len(), 1, "{told:?}");
    let text = Value::from(told.clone()).to_string();
    assert!(text.contains(&sha256("hello\n")), "{text}");
    assert!(!text.contains("secret words") && !text.contains("echo hello"), "{text}");
    let shown = Command::new(env!("CARGO_BIN_EXE_sandyard"))
        .args(["--url", &yard.url, "audit", "show", &id])
        .output()
        .await
        .unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("operation=write"), "{shown:?}");
    yard.delete(&id).await;
}
