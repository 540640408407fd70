//! A task from its words to its result: the real loop in a real sandbox, a recording in the model's place.

use std::time::Duration;

use serde_json::{Value, json};

use crate::downloads::read_entry;
use crate::recording::{call, finish, replay, shell};
use crate::yard::Yard;

pub(crate) type Events = Vec<(u64, String, Value)>;

pub(crate) fn of_kind<'a>(events: &'a Events, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event.1 == kind).map(|event| &event.2)
}

pub(crate) async fn yard(turns: &[Vec<Value>]) -> (tempfile::NamedTempFile, Yard) {
    let (file, spec) = replay(turns);
    let yard = Yard::start_with(&["--model", &spec]).await;
    (file, yard)
}

#[tokio::test]
async fn a_task_is_done_told_and_handed_over() {
    let write = |path: &str, content: &str| {
        call("files", &json!({ "action": "write", "path": path, "content": content }))
    };
    let (_recording, yard) = yard(&[
        vec![call(
            "plan",
            &json!({ "items": [{ "text": "write", "state": "doing" }, { "text": "run", "state": "open" }] }),
        )],
        vec![write("hello.py", "print('hello', 6 * 7)\n"), write("notes/readme.md", "# Notes\n")],
        vec![call("files", &json!({ "action": "edit", "path": "hello.py", "old": "6 * 7", "new": "6 * 8" }))],
        vec![shell("python3 hello.py > out.txt && cat out.txt"), shell("echo $SANDYARD_STEP; id -u")],
        vec![call("files", &json!({ "action": "search", "path": "", "text": "hello" }))],
        vec![call("recall", &json!({ "query": "hello 48" }))],
        vec![finish("Wrote hello.py; it prints hello 48.")],
    ])
    .await;
    let status = yard.run(&json!({ "task": "Write a program that says hello" })).await;
    assert_eq!(status["state"], "succeeded", "{status}\n{}", yard.log());
    assert_eq!((&status["kind"], &status["exit_code"]), (&json!("task"), &json!(0)), "{status}");
    assert_eq!(status["summary"], "Wrote hello.py; it prints hello 48.");
    let id = status["job_id"].as_str().unwrap();
    let events = yard.events(id).await;
    let tools: Vec<&Value> = of_kind(&events, "tool").collect();
    assert!(tools.iter().all(|tool| tool["failed"] == false), "{tools:?}");
    let said = format!("{tools:?}");
    assert!(said.contains("hello 48") && said.contains("1000"), "{said}");
    // Two of them are written at the same time.
    let mut files: Vec<&str> = of_kind(&events, "file").filter_map(|file| file["path"].as_str()).collect();
    files.sort_unstable();
    assert_eq!(files, ["hello.py", "hello.py", "notes/readme.md"]);
    let zip = yard.download(id).await;
    assert_eq!(read_entry(&zip, "out.txt"), b"hello 48\n");
    assert_eq!(read_entry(&zip, "SUMMARY.md"), b"Wrote hello.py; it prints hello 48.\n");
    let patch = String::from_utf8(read_entry(&zip, "changes.patch")).unwrap();
    assert!(patch.contains("+print('hello', 6 * 8)"), "{patch}");
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn a_question_waits_and_the_reply_goes_on() {
    let (_recording, yard) = yard(&[
        vec![call("ask", &json!({ "question": "Which colour?" }))],
        vec![shell("echo asked > asked")],
        vec![finish("Done in the colour you chose.")],
    ])
    .await;
    let id = yard.schedule(&json!({ "task": "Paint it", "limits": { "timeout_s": 60 } })).await;
    let waiting = yard.wait_for(&id, |status| status["state"] == "waiting").await;
    assert_eq!((&waiting["question"], &waiting["status"]), (&json!("Which colour?"), &json!("running")));
    let reply = yard.post(&format!("/jobs/{id}/reply"), &json!({ "text": "green" })).await;
    assert!(reply.status().is_success(), "{}", reply.text().await.unwrap());
    let status = yard.wait_end(&id).await;
    assert_eq!(status["state"], "succeeded", "{status}\n{}", yard.log());
}

#[tokio::test]
async fn a_recording_that_does_not_fit_ends_the_task_in_words() {
    let (_recording, yard) = yard(&[vec![shell("true")]]).await;
    let status = yard.run(&json!({ "task": "Go on for ever" })).await;
    assert_eq!(status["state"], "failed", "{status}");
    let error = status["error"]["message"].as_str().unwrap();
    assert!(error.contains("it ends after turn 1"), "{status}");
}

/// Whether the npm registry answers from here.
fn registry_answers() -> bool {
    let address = std::net::ToSocketAddrs::to_socket_addrs("registry.npmjs.org:443")
        .ok()
        .and_then(|mut all| all.next());
    address
        .is_some_and(|address| std::net::TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_ok())
}

#[tokio::test]
async fn the_shipped_demo_builds_and_tests_its_app() {
    let Some(yard) = crate::kernels::full_yard().await else { return };
    if !registry_answers() {
        eprintln!("skipped: needs the npm registry");
        return;
    }
    let body =
        json!({ "task": "Build me a todo app in React", "model": "replay:demo", "egress": ["packages"] });
    let id = yard.schedule(&body).await;
    let mut status = yard.status(&id).await;
    // npm may take its time.
    for _ in 0..4 {
        status = yard.wait_at_most(&id, Duration::from_secs(60)).await;
    }
    assert_eq!(status["state"], "succeeded", "{status}\n{}", yard.log());
    assert!(status["summary"].as_str().unwrap().contains("a recording"), "{status}");
    let zip = yard.download(&id).await;
    assert!(read_entry(&zip, "screenshot.png").starts_with(b"\x89PNG"));
    assert!(String::from_utf8(read_entry(&zip, "dist/index.html")).unwrap().contains("<script"));
    let events = yard.events(&id).await;
    let looked = of_kind(&events, "screenshot").next().expect("the desktop was looked at");
    let path = format!("/jobs/{id}/screenshot.png?entry={}&picture={}", looked["entry"], looked["picture"]);
    assert!(yard.get(&path).await.bytes().await.unwrap().starts_with(b"\x89PNG"));
    let reached: Vec<&Value> = of_kind(&events, "egress").collect();
    assert!(reached.iter().any(|event| event["target"] == "registry.npmjs.org:443"), "{reached:?}");
}
