//! The memory of jobs: the real loop in a small window, the real reader, and citations that are compared with what is stored.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use sandyard_memory::estimate_tokens;
use serde_json::{Value, json};

use crate::downloads::read_entry;
use crate::provider::{Answer, Provider};
use crate::recording::{call, finish, shell};
use crate::task::of_kind;
use crate::yard::Yard;

const KEY: &str = "memory-key-of-a-test";
/// The model's window.
const WINDOW: u64 = 100_000;
/// Steps that print some forty-five thousand tokens each.
const LONG_STEPS: usize = 40;

/// A model with a small window that gives these answers.
async fn yard(answers: Vec<Vec<Value>>) -> (std::sync::Arc<Provider>, Yard) {
    let answers = answers.into_iter().map(|calls| Answer::Calls(calls, Duration::ZERO)).collect();
    let provider = Provider::counting(KEY, answers);
    let mut table = tempfile::NamedTempFile::new().unwrap();
    writeln!(table, "[[model]]\nname = \"openai-compatible/canary\"\nwindow = {WINDOW}\nmax_output = 4000")
        .unwrap();
    let table_path = table.path().to_str().unwrap().to_owned();
    let environment = [("OPENAI_COMPATIBLE_API_KEY", Path::new(KEY))];
    let flags = ["--model", &provider.spec(), "--model-table", &table_path];
    let yard = Yard::start_in(&std::env::temp_dir(), &flags, &environment).await;
    (provider, yard)
}

async fn recall(yard: &Yard, id: &str, query: &str) -> Vec<Value> {
    let found = yard.get_json(&format!("/jobs/{id}/recall?{query}")).await;
    assert_eq!(found["unverified"], 0, "{found}");
    found["passages"].as_array().unwrap_or_else(|| panic!("{found}")).clone()
}

/// A command that prints much of which nothing is repeated.
fn noise(step: usize) -> Value {
    let program = format!(
        "import random\nrandom.seed({step})\nfor line in range(4000):\n  print(line, *(''.join(random.choices('abcdefghijklmnop', k=6)) for _ in range(8)))"
    );
    shell(&format!("python3 -c \"{program}\""))
}

#[tokio::test]
async fn first_minutes_are_recalled_from_far_beyond_the_window_with_citations() {
    let mut answers = vec![
        vec![shell("echo 'the valve of the red boiler opens at 7193 kilopascal'")],
        vec![call("files", &json!({ "action": "write", "path": "valve.py", "content": "LIMIT = 7193\n" }))],
        vec![call("files", &json!({ "action": "edit", "path": "valve.py", "old": "7193", "new": "8000" }))],
    ];
    answers.extend((0..LONG_STEPS).map(|step| vec![noise(step)]));
    answers.push(vec![call("recall", &json!({ "query": "when does the valve of the boiler open?" }))]);
    answers.push(vec![call("recall", &json!({ "path": "valve.py", "before": 9 }))]);
    answers.push(vec![finish("It opens at 7193.")]);
    let (provider, yard) = yard(answers).await;
    let id = yard
        .schedule(&json!({ "task": "Never touch the blue boiler.", "limits": { "timeout_s": 600 } }))
        .await;
    let mut status = yard.status(&id).await;
    for _ in 0..10 {
        status = yard.wait_at_most(&id, Duration::from_secs(60)).await;
    }
    assert_eq!(status["state"], "succeeded", "{status}\n{}", yard.log());
    assert_eq!(provider.left(), 0);

    let journal =
        String::from_utf8(read_entry(&yard.download(&id).await, ".sandyard/journal.jsonl")).unwrap();
    let tokens: u64 = journal.lines().map(estimate_tokens).sum();
    assert!(tokens > 1_500_000, "{tokens}");
    let largest = provider.largest_tokens();
    assert!(largest < WINDOW, "{largest}");

    // Through the loop: what its tool said.
    let events = yard.events(&id).await;
    let tools: Vec<&Value> = of_kind(&events, "tool").filter(|tool| tool["tool"] == "recall").collect();
    let said = |tool: &Value| tool["output"].as_str().unwrap().to_owned();
    assert!(said(tools[0]).contains("opens at 7193 kilopascal"), "{tools:?}");
    assert!(said(tools[1]).contains("LIMIT = 7193") && !said(tools[1]).contains("8000"), "{tools:?}");

    // Through the API: each citation is byte for byte what the journal has.
    let passages = recall(&yard, &id, "q=valve+of+the+red+boiler&k=5").await;
    let entries: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut compared = 0;
    for passage in &passages {
        let source = &passage["source"];
        let Some(part) = source["part"].as_u64() else { continue };
        let entry = &entries[source["entry"].as_u64().unwrap() as usize - 1]["entry"];
        let text = match entry["kind"].as_str().unwrap() {
            "step_ended" => entry["parts"][part as usize]["text"].as_str(),
            "answer" if part > 0 => entry["calls"][part as usize - 1]["arguments"].as_str(),
            "answer" | "task" => entry["text"].as_str(),
            "finished" => entry["summary"].as_str(),
            other => panic!("{other}"),
        };
        let start = source["start"].as_u64().unwrap() as usize;
        let end = start + passage["bytes"].as_u64().unwrap() as usize;
        assert_eq!(&text.unwrap().as_bytes()[start..end], passage["text"].as_str().unwrap().as_bytes());
        compared += 1;
    }
    assert!(compared > 0 && passages[0]["text"].as_str().unwrap().contains("7193"), "{passages:?}");
    let people = recall(&yard, &id, "q=boiler&scope=person").await;
    assert_eq!(people[0]["text"], "Never touch the blue boiler.");

    // What the model read: the task whole, old results as lines, and nothing that it did not read.
    let answer = entries.iter().rev().find(|row| row["entry"]["kind"] == "answer").unwrap();
    let context = yard.get_json(&format!("/jobs/{id}/context?step={}", answer["number"])).await;
    let reasons: Vec<&str> =
        context["parts"].as_array().unwrap().iter().map(|part| part["reason"].as_str().unwrap()).collect();
    assert_eq!((context["packed"].as_bool(), reasons[0]), (Some(true), "rule"), "{context}");
    assert!(reasons.contains(&"masked") && reasons.contains(&"recalled"), "{reasons:?}");
    let short = yard.get_json(&format!("/jobs/{id}/context?step=1")).await;
    assert_eq!((&short["packed"], &short["parts"]), (&json!(false), &json!([])));
}

#[tokio::test]
async fn a_session_is_remembered_whole_until_it_is_deleted_and_its_index_is_a_cache() {
    let yard = Yard::start().await;
    let id = yard.session().await;
    yard.shell(&id, "echo the colour of the harbour lamp is vermilion").await;
    let put = yard.client.put(format!("{}/jobs/{id}/files/lamp.txt", yard.url)).body("lamp: green\n");
    assert!(put.send().await.unwrap().status().is_success());
    let big = yard.shell(&id, "seq 1 200000; echo the end of the harbour").await;
    assert_eq!(big["exit_code"], 0);
    let passages = recall(&yard, &id, "q=colour+of+the+lamp").await;
    assert!(passages[0]["text"].as_str().unwrap().contains("vermilion"), "{passages:?}");
    assert_eq!(
        (&passages[0]["source"]["entry"], &passages[0]["source"]["path"]),
        (&Value::Null, &json!("shell"))
    );
    let files = recall(&yard, &id, "path=lamp.txt").await;
    assert_eq!(files[0]["text"], "lamp: green\n");
    let middle = recall(&yard, &id, "q=123456&scope=result&k=3").await;
    assert!(
        middle.iter().any(|passage| passage["text"].as_str().unwrap().contains("\n123456\n")),
        "the middle too"
    );
    // The index is a cache: without it, and after the end, the answer is the same.
    yard.post(&format!("/jobs/{id}/cancel"), &json!({})).await;
    yard.wait_end(&id).await;
    let index = yard.data().join("indexes").join(&id);
    assert!(index.is_dir());
    std::fs::remove_dir_all(&index).unwrap();
    let again = recall(&yard, &id, "q=colour+of+the+lamp").await;
    assert_eq!(again[0]["text"], passages[0]["text"]);
    yard.delete(&id).await;
    assert_eq!(yard.get(&format!("/jobs/{id}/recall?q=lamp")).await.status(), 404);
    assert!(!index.exists() && !yard.data().join("jobs").join(&id).exists());
}
