use sandyard_protocol::{ModelMessage, ModelPart, ModelUsage, StopReason, ToolResult, ToolSpec};

use super::*;
use crate::gateways::model::provider::AnswerRecorder;

fn tool_call(arguments: &str) -> ToolCall {
    ToolCall { id: "call_1".into(), name: "shell".into(), arguments: arguments.into() }
}

fn asked(answers: &[&str]) -> ModelCall {
    let mut messages = vec![ModelMessage::User { parts: vec![ModelPart::Text { text: "do it".into() }] }];
    for arguments in answers {
        messages.push(ModelMessage::Assistant { text: "so".into(), calls: vec![tool_call(arguments)] });
        let parts = vec![ModelPart::Text { text: format!("{arguments} at {:?}", std::time::Instant::now()) }];
        messages.push(ModelMessage::Tools {
            results: vec![ToolResult { call: "call_1".into(), parts, failed: false }],
        });
    }
    let tool =
        ToolSpec { name: "shell".into(), description: "runs".into(), parameters: serde_json::json!({}) };
    ModelCall {
        number: 1,
        model: None,
        system: "You are.".into(),
        messages,
        tools: vec![tool],
        max_tokens: 100,
        packing: Vec::new(),
    }
}

fn done() -> ModelEvent {
    ModelEvent::Done { stop: StopReason::Calls, usage: ModelUsage { input: 7, ..ModelUsage::default() } }
}

async fn recorded(turns: &[(ModelCall, Vec<ModelEvent>)]) -> Replay {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.jsonl");
    for (call, events) in turns {
        // Opened anew for each, as after a crash.
        let recorder = AnswerRecorder::open(&path, "openai/gpt").await.unwrap();
        recorder.write(call, events.clone()).await.unwrap();
    }
    Replay::open(&path).unwrap()
}

async fn two_turns() -> Replay {
    let text = ModelEvent::Text { text: "so".into() };
    let first = vec![text, ModelEvent::Call(tool_call(r#"{"command":"ls","seconds":5}"#)), done()];
    let second = vec![ModelEvent::Text { text: "done".into() }, done()];
    recorded(&[(asked(&[]), first), (asked(&[r#"{"command":"ls","seconds":5}"#]), second)]).await
}

async fn play(replay: &Replay, call: &ModelCall) -> Result<Vec<ModelEvent>, ModelFailure> {
    let (out, mut events) = mpsc::channel(16);
    let ended = replay.ask(call, &out).await?;
    assert_eq!(
        ended,
        AnswerEnd { stop: StopReason::Calls, usage: ModelUsage { input: 7, ..ModelUsage::default() } }
    );
    drop(out);
    let mut heard = Vec::new();
    while let Some(event) = events.recv().await {
        heard.push(event);
    }
    Ok(heard)
}

#[tokio::test]
async fn what_was_recorded_is_played_whatever_tools_put_out() {
    let replay = two_turns().await;
    let first = play(&replay, &asked(&[])).await.unwrap();
    assert_eq!(first[1], ModelEvent::Call(tool_call(r#"{"command":"ls","seconds":5}"#)));
    let again = play(&replay, &asked(&[])).await.unwrap();
    assert_eq!(again, first, "a loop that died may ask again");
    // The same arguments in other clothes.
    let second = play(&replay, &asked(&[r#"{ "seconds": 5, "command": "ls" }"#])).await.unwrap();
    assert_eq!(second, [ModelEvent::Text { text: "done".into() }]);
}

#[tokio::test]
async fn another_run_is_told_where_it_differs() {
    let replay = two_turns().await;
    let failure = play(&replay, &asked(&[r#"{"command":"rm"}"#])).await.unwrap_err();
    assert_eq!(failure.code, ModelFailureCode::Rejected);
    assert_eq!(
        failure.message,
        "the replay does not fit this run: the calls of turn 1 differ\n\
         - recorded: shell {\"command\":\"ls\",\"seconds\":5}\n\
         + now:      shell {\"command\":\"rm\"}"
    );
    let same = r#"{"command":"ls","seconds":5}"#;
    let mut none = asked(&[same]);
    none.messages[1] = ModelMessage::Assistant { text: String::new(), calls: Vec::new() };
    assert!(play(&replay, &none).await.unwrap_err().message.ends_with("+ now:      (no call)"));

    let mut other = asked(&[]);
    other.system.push('!');
    assert!(play(&replay, &other).await.unwrap_err().message.contains("template differs at turn 1"));
    let mut other = asked(&[]);
    other.tools[0].description.push('!');
    assert!(play(&replay, &other).await.unwrap_err().message.contains("template differs"));
}

#[tokio::test]
async fn a_recording_ends() {
    let replay = two_turns().await;
    let same = r#"{"command":"ls","seconds":5}"#;
    let mut more = asked(&[same]);
    more.messages.push(ModelMessage::Assistant { text: "done".into(), calls: Vec::new() });
    let failure = play(&replay, &more).await.unwrap_err();
    assert!(failure.message.contains("ends after turn 2, and turn 3 is asked for"), "{}", failure.message);
}

#[tokio::test]
async fn a_turn_that_was_asked_twice_counts_as_last_answered() {
    let again = vec![ModelEvent::Text { text: "again".into() }, done()];
    let first = vec![ModelEvent::Text { text: "first".into() }, done()];
    let replay = recorded(&[(asked(&[]), first), (asked(&[]), again)]).await;
    assert_eq!(play(&replay, &asked(&[])).await.unwrap(), [ModelEvent::Text { text: "again".into() }]);
}

#[test]
fn files_that_are_no_recordings_are_refused_by_line() {
    let head = r#"{"sandyard_recording":1,"model":"m"}"#;
    let refused = |text: &str| Replay::parse(text).unwrap_err();
    assert_eq!(refused("").0, 1);
    assert_eq!(refused("{}"), (1, "not the head of a recording".into()));
    assert!(refused(&head.replace(":1", ":2")).1.contains("format 2"));
    let (line, what) = refused(&format!("{head}\n\n{{\"turn\":2,\"template\":\"\",\"events\":[]}}"));
    assert_eq!((line, what.as_str()), (3, "turn 2 follows turn 0"));
    assert_eq!(
        refused(&format!("{head}\n{{\"turn\":1,\"template\":\"\",\"events\":[]}}")).1,
        "a turn without an end"
    );
    assert!(matches!(Replay::open(Path::new("/nonexistent")), Err(ReplayError::Read { .. })));
}
