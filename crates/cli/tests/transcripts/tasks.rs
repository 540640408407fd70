//! Tasks that ask a person, at a terminal and without one.

use std::process::Stdio;
use std::sync::Arc;

use sandyard_protocol::{JournalEntry, ModelEvent, ModelPart, WhyAsked};
use sandyard_sandbox::driver::Driver;
use sandyard_server::app::Yard;
use sandyard_server::config::{AdmissionConfig, ServerConfig};
use sandyard_testkit::{Loop, ReadyImages, ScriptedDriver};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::person::Person;
use crate::served::{PATIENCE, Served};

/// A yard whose every task asks for a colour and paints with it.
pub(crate) async fn painter() -> Served {
    yard_of("{\"sandyard_recording\": 1, \"model\": \"openai/gpt-5\"}\n", ask_and_paint).await
}

/// A yard whose every task looks around with one call of a tool.
async fn looker() -> Served {
    let answer = json!({ "turn": 1, "template": template(), "events": [
        { "event": "text", "text": "Let me look." },
        { "event": "call", "id": "call_0", "name": "shell", "arguments": r#"{"command":"ls src"}"# },
        { "event": "done", "stop": "calls", "usage": { "input": 100, "cached": 0, "output": 10 } },
    ]});
    let head = json!({ "sandyard_recording": 1, "model": "openai/gpt-5" });
    yard_of(&format!("{head}\n{answer}\n"), look_around).await
}

/// The hash of a script's instructions, as the server makes it: their length and text; scripts offer no tools.
fn template() -> String {
    let system = sandyard_testkit::question(1, None).system;
    let hash =
        Sha256::new().chain_update((system.len() as u64).to_le_bytes()).chain_update(&system).finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A yard whose model is this recording and whose machines run this script.
async fn yard_of<F>(recorded: &str, script: fn(Loop) -> F) -> Served
where
    F: Future<Output = i32> + Send + 'static,
{
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("model.jsonl");
    std::fs::write(&recording, recorded).unwrap();
    let mut config = ServerConfig::new(folder.path().join("yard"), 16 * 1024);
    config.admission =
        AdmissionConfig { disk_reserve_mib: 1, disk_mib: Some(1 << 30), reserve_mib: 0, ..config.admission };
    config.models.default = Some(format!("replay:{}", recording.display()).parse().unwrap());
    let drivers: Vec<Arc<dyn Driver>> = vec![ScriptedDriver::new(script)];
    let yard = Yard::start(config, drivers, Arc::new(ReadyImages)).await.unwrap();
    Served::of(yard, Box::new(folder)).await
}

async fn ask_and_paint(mut it: Loop) -> i32 {
    let mut desk = it.desk().await.unwrap();
    let asked = JournalEntry::Asked { question: "Red or blue?".into(), why: WhyAsked::Ask };
    desk.append(2, asked).await.unwrap();
    let Ok(row) = desk.said().await else { return 9 };
    let JournalEntry::Said { text, .. } = &row.entry else { panic!("{row:?}") };
    let summary = format!("painted: {text}");
    desk.append(row.number + 1, JournalEntry::Finished { summary }).await.unwrap();
    0
}

async fn look_around(mut it: Loop) -> i32 {
    let mut desk = it.desk().await.unwrap();
    let heard = it.ask(2).await;
    let call = heard.into_iter().find_map(|event| match event {
        ModelEvent::Call(call) => Some(call),
        _ => None,
    });
    let call = call.unwrap();
    let began = JournalEntry::StepBegan { call: call.id.clone(), name: call.name, arguments: call.arguments };
    desk.append(3, began).await.unwrap();
    let ended = JournalEntry::StepEnded {
        call: call.id,
        parts: vec![ModelPart::Text { text: "app.ts\n".into() }],
        failed: false,
        interrupted: false,
        took_ms: 12,
        files: Vec::new(),
    };
    desk.append(4, ended).await.unwrap();
    desk.append(5, JournalEntry::Finished { summary: "There is one file.".into() }).await.unwrap();
    0
}

#[tokio::test(flavor = "multi_thread")]
async fn the_story_of_a_task_names_its_calls_and_can_be_read_again() {
    let yard = looker().await;
    let run = yard.run(&["run", "--offline", "--name", "look", "look", "around"]).await.expect(0);
    assert_eq!(run.out, "There is one file.\n");
    let story = "Let me look.\n▸ shell ls src\n  done shell ls src after 12 ms: app.ts\n";
    assert!(run.err.contains(story), "{}", run.err);
    for again in [&["logs", "-f", "look"][..], &["attach", "look"]] {
        let told = yard.run(again).await.expect(0);
        assert!(told.err.contains(story), "{again:?}: {}", told.err);
    }
    // The output of a task alone is what its programs print; this one's print nothing.
    assert_eq!(yard.run(&["logs", "look"]).await.expect(0).out, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_a_task_tells_its_tokens() {
    let yard = looker().await;
    yard.run(&["run", "--offline", "--name", "look", "look", "around"]).await.expect(0);
    let status = yard.run(&["status", "look"]).await.expect(0).out;
    for line in ["what:       look around", "tokens:     100 in, 10 out\n", "summary:    There is one file."]
    {
        assert!(status.contains(line), "{line}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_a_prompt_and_what_is_typed_is_the_answer() {
    let yard = painter().await;
    let mut person = Person::at(yard.command(&["run", "--offline", "paint", "it"]));
    person.sees("? Red or blue?").await;
    person.sees("your answer>").await;
    person.types("Blue, please.\n");
    person.sees("painted: Blue, please.").await;
    assert_eq!(person.leaves().await, 0);
    let id = yard.run(&["ps", "-q"]).await.out.trim().to_owned();
    // The story can be read again, with the question and the answer.
    let story = yard.run(&["attach", &id[..8]]).await.expect(0);
    assert!(story.err.contains("? Red or blue?") && story.err.contains("Blue, please."), "{}", story.err);
    assert_eq!(story.out, "painted: Blue, please.\n");
    let status = yard.run(&["status", &id]).await.expect(0).out;
    for line in ["what:       paint it", "model:      replay:", "summary:    painted: Blue, please."] {
        assert!(status.contains(line), "{line}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_a_question_waits_for_a_reply_or_fails() {
    let yard = painter().await;
    let failed = yard.run(&["run", "--offline", "--on-question", "fail", "paint", "it"]).await.expect(9);
    assert!(failed.err.contains("? Red or blue?"), "{}", failed.err);
    let first = yard.run(&["ps", "-q"]).await.out.trim().to_owned();
    yard.run(&["wait", &first]).await.expect(6);

    let mut command = yard.command(&["run", "--offline", "paint", "it", "again"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let waiting = command.spawn().unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let id = loop {
        let listed = yard.run(&["ps", "-q", "--status", "waiting"]).await.out.trim().to_owned();
        if !listed.is_empty() {
            break listed;
        }
        assert!(tokio::time::Instant::now() < deadline, "it does not ask");
    };
    assert!(yard.run(&["ps"]).await.out.contains("paint it again · ? Red or blue?"));
    yard.run(&["reply", &id[..8], "Red."]).await.expect(0);
    let output = tokio::time::timeout(PATIENCE, waiting.wait_with_output()).await.unwrap().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), out.as_str()), (Some(0), "painted: Red.\n"), "{err}");
    assert!(err.contains(&format!("answer with `sandyard reply {} TEXT`", &id[..8])), "{err}");
}
