//! A real model behind llama.cpp's own server: what its answers, its limits and its end look like to a whole yard.
//!
//! SmolLM2 is far too small to be an agent, and its own template has no place for tools: the server takes their specifications,
//! and no call comes of them. With a template that shows it how, it makes one, and the server parses it. Needs what `scripts/setup.sh test` installs; without it each test is skipped.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::origins::{modules, root};
use crate::yard::{PATIENCE, Yard, is_terminal, parse_events};

/// What this model does not come to an end with.
const ENDLESS: &str = "Count from one to ten thousand, in words.";

/// A real server of a real model, and a yard that asks it.
struct World {
    yard: Yard,
    address: String,
    _server: Child,
    _table: NamedTempFile,
}

impl World {
    /// With a window of so many tokens, and answers of at most so many. `None`, with the reason told, where there is no model.
    async fn start(window: u32, longest_answer: u32) -> Option<Self> {
        Self::start_with(window, longest_answer, None).await
    }

    /// The same with a template of the prompt, a file of `tests/model`.
    async fn start_with(window: u32, longest_answer: u32, template: Option<&str>) -> Option<Self> {
        let Some(modules) = modules("model").await else {
            eprintln!("skipped: needs the model modules (scripts/setup.sh test)");
            return None;
        };
        let mut server = Command::new(modules.join("bin/python"))
            .arg(root().join("tests/model/serve.py"))
            .arg(window.to_string())
            .args(template.map(|name| root().join("tests/model").join(name)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("no model").unwrap();
        let address = line.expect("the model's server ended");
        let mut table = NamedTempFile::new().unwrap();
        // The window is told larger than it is, so that it is the server who finds a conversation too long.
        writeln!(
            table,
            "[[model]]\nname = \"openai-compatible/smollm2\"\nwindow = 32768\nmax_output = {longest_answer}"
        )
        .unwrap();
        let spec = format!("openai-compatible@{address}/v1/smollm2");
        let table_path = table.path().to_str().unwrap().to_owned();
        let yard = Yard::start_with(&["--model", &spec, "--model-table", &table_path]).await;
        Some(Self { yard, address, _server: server, _table: table })
    }

    /// Whether the model is at work.
    async fn is_busy(&self) -> bool {
        let slots = self.yard.client.get(format!("{}/slots", self.address)).send().await.unwrap();
        let slots: Value = slots.json().await.unwrap();
        slots[0]["is_processing"].as_bool().expect("a slot")
    }

    /// Waits for the first words of an answer on the job's live events.
    async fn first_words(&self, id: &str) {
        let mut events = self.yard.get(&format!("/jobs/{id}/events")).await;
        let mut text = String::new();
        while let Some(chunk) = events.chunk().await.unwrap() {
            text.push_str(&String::from_utf8_lossy(&chunk));
            if parse_events(&text).iter().any(|event| event.1 == "model" && event.2["text"].is_string()) {
                return;
            }
        }
        panic!("no words: {text}");
    }
}

#[tokio::test]
async fn an_answer_comes_in_pieces_and_its_tokens_are_counted() {
    let longest = 128;
    let Some(world) = World::start(4096, longest).await else { return };
    let status =
        world.yard.run(&json!({ "task": ENDLESS, "budget": { "steps": 1, "on_breach": "end" } })).await;
    let events = world.yard.events(status["job_id"].as_str().unwrap()).await;
    let told: Vec<&Value> = events.iter().filter(|event| event.1 == "model").map(|event| &event.2).collect();
    let pieces: Vec<&Value> = told.iter().copied().filter(|event| event["text"].is_string()).collect();
    assert!(pieces.len() >= 2, "not in pieces: {told:?}\n{status}");
    let mut offset = 0;
    for piece in &pieces {
        assert_eq!(piece["offset"], offset, "{told:?}");
        offset += piece["text"].as_str().unwrap().len();
    }
    // The eight tools went along, and the server did not mind: its one answer is complete, the next question was too many.
    let done: Vec<&Value> = told.iter().copied().filter(|event| event["done"] == true).collect();
    assert_eq!((&done[0]["error"], &done[1]["code"]), (&Value::Null, &json!("budget")), "{done:?}");
    assert_eq!(done[0]["tokens_out"], longest, "the model was to go on: {done:?}");
    assert!(done[0]["tokens_in"].as_u64() > Some(300), "the agent's prompt is longer: {done:?}");
    for count in ["tokens_in", "tokens_out"] {
        assert_eq!(status["usage"][count], done[0][count], "{status}");
    }
}

#[tokio::test]
async fn a_call_of_a_tool_is_understood_and_run() {
    let Some(world) = World::start_with(4096, 64, Some("tools.jinja")).await else { return };
    let status =
        world.yard.run(&json!({ "task": "Go on.", "budget": { "steps": 1, "on_breach": "end" } })).await;
    let events = world.yard.events(status["job_id"].as_str().unwrap()).await;
    let tools: Vec<&Value> = events.iter().filter(|event| event.1 == "tool").map(|event| &event.2).collect();
    assert!(!tools.is_empty(), "no call: {events:?}");
    assert_eq!((&tools[0]["tool"], &tools[0]["failed"]), (&json!("shell"), &json!(false)), "{tools:?}");
}

#[tokio::test]
async fn a_job_that_is_cancelled_stops_the_model() {
    let Some(world) = World::start(8192, 4000).await else { return };
    let id = world.yard.schedule(&json!({ "task": ENDLESS })).await;
    world.first_words(&id).await;
    assert!(world.is_busy().await, "the answer was over at once");
    let cancelled = Instant::now();
    world.yard.post_json(&format!("/jobs/{id}/cancel"), &json!({})).await;
    while world.is_busy().await {
        assert!(cancelled.elapsed() < Duration::from_secs(15), "the model goes on for nobody");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = world.yard.wait_for(&id, |status| is_terminal(&status["state"])).await;
    assert_eq!(status["state"], "cancelled", "{status}");
    assert!(!world.is_busy().await, "it was asked again");
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_in_these_words() {
    let Some(world) = World::start(1024, 64).await else { return };
    let status = world.yard.run(&json!({ "task": "sea ".repeat(3000) })).await;
    assert_eq!(status["state"], "failed", "{status}");
    let message = status["error"]["message"].as_str().unwrap();
    assert!(message.contains("longer than the model's window"), "{status}");
    let events = world.yard.events(status["job_id"].as_str().unwrap()).await;
    let failed: Vec<&Value> =
        events.iter().filter(|event| event.1 == "model").map(|event| &event.2).collect();
    assert!(!failed.is_empty(), "{status}");
    for event in failed {
        assert_eq!(event["code"], "context_too_long", "{event}");
        let words = event["error"].as_str().unwrap();
        assert!(words.contains("exceeds the available context size"), "{event}");
    }
    assert_eq!(status["usage"]["tokens_out"], 0, "{status}");
}
