//! A task from its first word to its download.

use sandyard_protocol::{JournalEntry, ModelEvent, ModelPart, PlanItem, PlanState, Request};
use sandyard_server::app::{AppError, ErrorCode, FailureCode, JobState};
use sandyard_server::auth::Caller;
use sandyard_testkit::{shell, task};
use serde_json::json;

use crate::yard::{TaskYard, finished, keep};

fn ended(call: &str, text: &str) -> JournalEntry {
    JournalEntry::StepEnded {
        call: call.into(),
        parts: vec![ModelPart::Text { text: text.into() }, ModelPart::Png { base64: "cGljdHVyZQ==".into() }],
        failed: false,
        interrupted: false,
        took_ms: 12,
        files: vec!["src/app.ts".into()],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_worked_on_told_and_downloaded() {
    let yard = TaskYard::new(&[("Let me look.", Some(r#"{"command":"ls"}"#))], |mut it| async move {
        let mut desk = it.desk().await.unwrap();
        assert_eq!(desk.facts.task, "build a todo app");
        assert!(desk.facts.model.replay && desk.facts.model.name.starts_with("replay:"));
        assert!(desk.facts.model.sees && desk.facts.model.window_tokens == 400_000, "as the recorded one");
        assert_eq!((desk.facts.incarnation, desk.facts.entries), (1, 1));
        assert_eq!(desk.journal[0].entry, JournalEntry::Task { text: "build a todo app".into() });
        let heard = it.ask(2).await;
        let [
            ModelEvent::Text { text },
            ModelEvent::Call(call),
            ModelEvent::Kept { number: 2 },
            ModelEvent::Done { .. },
        ] = &heard[..]
        else {
            panic!("{heard:?}")
        };
        assert_eq!((text.as_str(), call.name.as_str()), ("Let me look.", "shell"));
        let began = JournalEntry::StepBegan {
            call: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        };
        let plan =
            JournalEntry::Plan { items: vec![PlanItem { text: "look".into(), state: PlanState::Doing }] };
        assert_eq!(keep(&mut desk, 3, began).await, 3);
        assert_eq!(keep(&mut desk, 4, ended(&call.id, "a.txt")).await, 4);
        assert_eq!(keep(&mut desk, 5, plan).await, 5);
        assert_eq!(keep(&mut desk, 6, finished("All **done**.")).await, 6);
        0
    })
    .await;
    let id = yard.schedule(task("build a todo app")).await;
    let status = yard.ended(&id).await;
    assert_eq!(
        (status.state, status.summary.as_deref()),
        (JobState::Succeeded, Some("All **done**.")),
        "{status:?}"
    );
    assert_eq!((status.tokens_in, status.tokens_out, status.usd), (100, 10, 0.0));

    let told = yard.events(&id, &["step", "tool", "file", "screenshot", "plan", "model"]).await;
    let kinds: Vec<&str> = told.iter().map(|(kind, _)| kind.as_str()).collect();
    // The words first, then the deed that they announce, whichever way each came.
    assert_eq!(kinds, ["model", "model", "step", "tool", "file", "screenshot", "plan"]);
    let of =
        |wanted: &str| told.iter().find(|(kind, _)| kind == wanted).map(|(_, data)| data.clone()).unwrap();
    assert_eq!(of("step"), json!({ "call": "call_0", "tool": "shell", "arguments": r#"{"command":"ls"}"# }));
    let tool = of("tool");
    assert_eq!(
        (&tool["tool"], &tool["output"], &tool["took_ms"]),
        (&json!("shell"), &json!("a.txt"), &json!(12))
    );
    assert_eq!(of("file"), json!({ "path": "src/app.ts" }));
    assert_eq!(of("screenshot"), json!({ "entry": 4, "picture": 1 }));
    let models: Vec<_> = told.iter().filter(|(kind, _)| kind == "model").map(|(_, data)| data).collect();
    assert_eq!(*models[0], json!({ "entry": 2, "offset": 0, "text": "Let me look." }));
    assert_eq!((&models[1]["done"], &models[1]["tokens_in"]), (&json!(true), &json!(100)));

    let zip = sandyard_testkit::download_whole(&yard.yard, &id).await.unwrap();
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
    let names: Vec<String> = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
    let of_the_host = [".sandyard/journal.jsonl", ".sandyard/files.jsonl", ".sandyard/audit.jsonl"];
    assert_eq!(names, [["made.txt", "SUMMARY.md"].as_slice(), &of_the_host].concat());
    let journal = std::io::read_to_string(zip.by_index(2).unwrap()).unwrap();
    let lines: Vec<serde_json::Value> =
        journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6);
    assert_eq!((&lines[1]["entry"]["kind"], &lines[1]["number"]), (&json!("answer"), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_without_a_model_is_refused_with_the_ways_to_name_one() {
    let yard = sandyard_testkit::TestYard::new().await.unwrap();
    let refused: AppError = yard.yard.schedule(&Caller::operator(), task("do it"), None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NoModel);
    let hint = refused.hint.unwrap();
    for way in ["--model", "SANDYARD_MODEL", "configuration file", "sandyard demo"] {
        assert!(hint.contains(way), "{hint}");
    }
    let yard = TaskYard::new(&[], |_| async { 0 }).await;
    let mut other = task("do it");
    other.task.model = Some("openai/gpt-5".into());
    let refused = yard.yard.schedule(&Caller::operator(), other, None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::UnknownModel);
    assert!(refused.message.contains("replay:"), "{}", refused.message);
    let mut long = task("do it");
    long.task.ask_timeout_s = Some(30 * 24 * 3600);
    assert_eq!(
        yard.yard.schedule(&Caller::operator(), long, None).await.unwrap_err().code,
        ErrorCode::LimitOutOfRange
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_ends_says_why_or_has_failed() {
    for (words, code, reason) in [
        (Some("I could not find the file."), FailureCode::GaveUp, "I could not find the file."),
        (None, FailureCode::AgentFailed, "the agent ended without saying what it did"),
    ] {
        let yard = TaskYard::new(&[], move |mut it| async move {
            let mut desk = it.desk().await.unwrap();
            let Some(words) = words else { return 0 };
            keep(&mut desk, 2, JournalEntry::GaveUp { reason: words.into() }).await;
            1
        })
        .await;
        let id = yard.schedule(task("do it")).await;
        let status = yard.ended(&id).await;
        assert_eq!((status.state, status.reason.as_deref()), (JobState::Failed, Some(reason)));
        assert_eq!(status.error.unwrap().code, code);
        assert!(yard.yard.download(&yard.job(&id).await).await.is_ok(), "the work is kept");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_on_in_another_machine_with_its_journal() {
    let yard = TaskYard::new(&[("On it.", None)], |mut it| async move {
        let mut desk = it.desk().await.unwrap();
        if desk.facts.incarnation == 1 {
            it.ask(2).await;
            keep(&mut desk, 3, JournalEntry::Nudge { text: "first machine".into() }).await;
            std::future::pending::<()>().await;
        }
        let kinds: Vec<(u64, u32)> = desk.journal.iter().map(|row| (row.number, row.incarnation)).collect();
        assert_eq!(kinds, [(1, 0), (2, 1), (3, 1)]);
        keep(&mut desk, 4, finished("in the second machine")).await;
        0
    })
    .await;
    let id = yard.schedule(task("do it")).await;
    yard.noted(&id, 1).await;
    yard.driver.kill_all();
    let status = yard.ended(&id).await;
    assert_eq!(status.summary.as_deref(), Some("in the second machine"), "{status:?}");
    assert_eq!(status.tokens_in, 100, "nothing was paid twice");
    let begun =
        yard.driver.requests().iter().filter(|request| matches!(request, Request::BeginJob(_))).count();
    assert!(begun <= 1, "machines that were removed are forgotten: {begun}");
    let notes = yard.events(&id, &["note"]).await;
    assert!(
        notes.iter().any(|(_, data)| data["text"].as_str().unwrap().contains("another one")),
        "{notes:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_goes_on_at_its_desk_after_the_server_died() {
    let yard = TaskYard::new(&[("On it.", None)], |mut it| async move {
        let mut number = 2;
        // One entry for each server, and a last one.
        while number < 4 {
            let Ok(mut desk) = it.desk().await else { continue };
            number = desk.journal.len() as u64 + 1;
            let entry = if number < 4 { crate::yard::nudge("still here") } else { finished("survived") };
            if desk.append(number, entry).await.is_err() {
                continue;
            }
            if number < 4 {
                // Until the server is gone.
                while desk.hear().await.is_ok() {}
            }
        }
        0
    })
    .await;
    let id = yard.schedule(task("do it")).await;
    let mut yard = yard;
    for server in 1..=2 {
        yard.noted(&id, server).await;
        yard = yard.crash_and_restart().await;
    }
    let status = yard.ended(&id).await;
    assert_eq!(status.summary.as_deref(), Some("survived"), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_no_task_has_neither_desk_nor_messages() {
    let yard = TaskYard::new(&[("Hello.", None)], |mut it| async move {
        let desk = tokio::time::timeout(std::time::Duration::from_secs(5), it.desk()).await;
        assert!(desk.is_ok_and(|desk| desk.is_err()), "there is no desk");
        assert_eq!(it.ask(1).await, [], "there is no model");
        0
    })
    .await;
    let id = yard.schedule(shell("true")).await;
    let refused = yard.yard.reply(&yard.job(&id).await, "hello".into(), None).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (ErrorCode::NotWaiting, "a job of kind `shell` takes no messages")
    );
    assert_eq!(yard.ended(&id).await.state, JobState::Succeeded);
}
