//! Tasks that ask a person, at a terminal and without one.

use std::process::Stdio;
use std::sync::Arc;

use sandyard_protocol::{JournalEntry, WhyAsked};
use sandyard_sandbox::driver::Driver;
use sandyard_server::app::Yard;
use sandyard_server::config::{AdmissionConfig, ServerConfig};
use sandyard_testkit::{Loop, ReadyImages, ScriptedDriver};

use crate::person::Person;
use crate::served::{PATIENCE, Served};

/// A yard whose every task asks for a colour and paints with it.
async fn painter() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("model.jsonl");
    std::fs::write(&recording, "{\"sandyard_recording\": 1, \"model\": \"openai/gpt-5\"}\n").unwrap();
    let mut config = ServerConfig::new(folder.path().join("yard"), 16 * 1024);
    config.admission =
        AdmissionConfig { disk_reserve_mib: 1, disk_mib: Some(1 << 30), reserve_mib: 0, ..config.admission };
    config.models.default = Some(format!("replay:{}", recording.display()).parse().unwrap());
    let drivers: Vec<Arc<dyn Driver>> = vec![ScriptedDriver::new(ask_and_paint)];
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
