use sandyard_protocol::{ModelFailureCode, ToolSpec};

use super::*;

fn words(text: &str) -> ModelPart {
    ModelPart::Text { text: text.into() }
}

fn conversation() -> ModelCall {
    let picture = ModelPart::Png { base64: "cGljdHVyZQ==".into() };
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "shell".into(),
        arguments: arguments.into(),
    };
    ModelCall {
        number: 1,
        model: None,
        system: "Be brief.".into(),
        messages: vec![
            ModelMessage::User { parts: vec![words("look"), words(" \n"), picture.clone()] },
            ModelMessage::Assistant {
                text: "Well.".into(),
                calls: vec![call("a", r#"{"command":"ls"}"#), call("b", "[1]"), call("c", " ")],
            },
            ModelMessage::Tools {
                results: vec![
                    ToolResult { call: "a".into(), parts: vec![words("one"), picture], failed: false },
                    ToolResult { call: "b".into(), parts: vec![], failed: true },
                ],
            },
            ModelMessage::Assistant { text: " ".into(), calls: vec![] },
            ModelMessage::User { parts: vec![words("go on")] },
        ],
        tools: vec![ToolSpec {
            name: "shell".into(),
            description: "Runs a command.".into(),
            parameters: json!({ "type": "object" }),
        }],
        max_tokens: 1000,
        packing: Vec::new(),
    }
}

#[test]
fn a_conversation_is_written_as_the_specification_says() {
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "cGljdHVyZQ==" } });
    let ephemeral = json!({ "type": "ephemeral" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let call =
        |id: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": "shell", "input": input });
    let expected = json!({
        "model": "claude-x",
        "max_tokens": 1000,
        "stream": true,
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": ephemeral }],
        "tools": [{ "name": "shell", "description": "Runs a command.", "input_schema": { "type": "object" } }],
        "messages": [
            { "role": "user", "content": [text("look"), image] },
            { "role": "assistant", "content": [
                text("Well."),
                call("a", json!({ "command": "ls" })),
                call("b", json!({ "malformed_arguments": "[1]" })),
                call("c", json!({})),
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "is_error": false, "content": [text("one"), image] },
                { "type": "tool_result", "tool_use_id": "b", "is_error": true, "content": [text("(nothing)")],
                  "cache_control": ephemeral },
            ] },
            { "role": "assistant", "content": [text("(nothing)")] },
            { "role": "user", "content": [{ "type": "text", "text": "go on", "cache_control": ephemeral }] },
        ],
    });
    assert_eq!(request(&conversation(), "claude-x"), expected);
}

#[test]
fn at_most_four_places_are_marked_for_the_cache() {
    let mut call = conversation();
    for _ in 0..10 {
        call.messages.extend(conversation().messages);
    }
    let body = request(&call, "m").to_string();
    assert_eq!(body.matches("cache_control").count(), 3);
    let bare = ModelCall { system: String::new(), tools: vec![], messages: vec![], ..call };
    let body = request(&bare, "m");
    assert_eq!((body.get("system"), body.get("tools")), (None, None));
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-x","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;
const PING: &str = r#"{"type":"ping"}"#;

fn ended(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":15}}}}"#
    )
}

fn block(index: usize, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn delta(index: usize, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn hear(data: &[&str]) -> Result<Vec<ModelEvent>, AttemptError> {
    let mut answer = AnthropicAnswer::default();
    let mut events = Vec::new();
    for data in data {
        events.extend(answer.take(data)?);
    }
    events.extend(answer.finish()?);
    Ok(events)
}

/// A whole message of these events, ended for a reason.
fn heard(events: &[String], reason: &str) -> Vec<ModelEvent> {
    let end = ended(reason);
    let mut data = vec![START, PING];
    data.extend(events.iter().map(String::as_str));
    data.extend([end.as_str(), STOP]);
    hear(&data).unwrap()
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text { text: text.into() }
}

fn called(id: &str, name: &str, arguments: &str) -> ModelEvent {
    ModelEvent::Call(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
}

fn done(stop: StopReason) -> ModelEvent {
    let usage = ModelUsage { input: 1125, cached: 1000, cache_written: 100, output: 15 };
    ModelEvent::Done { stop, usage }
}

#[test]
fn words_come_as_they_come_and_usage_counts_the_cache() {
    let events = [
        block(0, r#"{"type":"text","text":""}"#),
        delta(0, r#"{"type":"text_delta","text":"Hel"}"#),
        delta(0, r#"{"type":"text_delta","text":"lo"}"#),
        r#"{"type":"content_block_stop","index":0}"#.to_owned(),
    ];
    assert_eq!(heard(&events, "end_turn"), [text("Hel"), text("lo"), done(StopReason::End)]);
}

#[test]
fn calls_that_come_in_parts_are_put_together_in_parallel() {
    let events = [
        block(1, r#"{"type":"tool_use","id":"toolu_a","name":"shell","input":{}}"#),
        delta(1, r#"{"type":"input_json_delta","partial_json":""}"#),
        delta(1, r#"{"type":"input_json_delta","partial_json":"{\"com"}"#),
        block(2, r#"{"type":"tool_use","id":"toolu_b","name":"view","input":{}}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":"{\"path\": oops"}"#),
        delta(1, r#"{"type":"input_json_delta","partial_json":"mand\":1}"}"#),
        block(3, r#"{"type":"tool_use","id":"toolu_c","name":"plan","input":{}}"#),
        block(4, r#"{"type":"tool_use","id":"toolu_d","name":"plan","input":{"whole":1}}"#),
        block(5, r#"{"type":"tool_use","id":"toolu_e","name":"plan"}"#),
    ];
    let expected = [
        called("toolu_a", "shell", r#"{"command":1}"#),
        called("toolu_b", "view", r#"{"path": oops"#),
        called("toolu_c", "plan", "{}"),
        called("toolu_d", "plan", r#"{"whole":1}"#),
        called("toolu_e", "plan", "{}"),
        done(StopReason::Calls),
    ];
    assert_eq!(heard(&events, "tool_use"), expected);
}

#[test]
fn reasons_are_told_apart_and_unknown_ones_are_ends() {
    for (reason, stop) in [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("refusal", StopReason::Refused),
        ("something_new", StopReason::End),
    ] {
        assert_eq!(heard(&[], reason), [done(stop)], "{reason}");
    }
}

#[test]
fn thoughts_and_what_is_not_known_are_left_out() {
    let events = [
        block(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"hm"}"#),
        delta(0, r#"{"type":"signature_delta","signature":"x"}"#),
        block(1, r#"{"type":"redacted_thinking","data":"x"}"#),
        block(2, r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#),
        r#"{"type":"event_of_tomorrow","index":"x"}"#.to_owned(),
        delta(3, r#"{"type":"text_delta","text":"Yes"}"#),
    ];
    assert_eq!(heard(&events, "end_turn"), [text("Yes"), done(StopReason::End)]);
}

#[test]
fn counts_that_are_told_again_replace_the_first() {
    let again = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":30,"output_tokens":7}}"#;
    let events = hear(&[START, again, STOP]).unwrap();
    let usage = ModelUsage { input: 1130, cached: 1000, cache_written: 100, output: 7 };
    assert_eq!(events, [ModelEvent::Done { stop: StopReason::End, usage }]);
    let huge = r#"{"type":"message_delta","delta":{},"usage":{"input_tokens":18446744073709551615}}"#;
    assert!(hear(&[START, huge, STOP]).is_ok(), "counts overflow nothing");
}

fn trouble(data: &[&str]) -> AttemptError {
    hear(data).unwrap_err()
}

#[test]
fn what_breaks_off_or_is_garbage_may_be_better_next_time() {
    let lost = delta(1, r#"{"type":"input_json_delta","partial_json":"{}"}"#);
    let end = ended("end_turn");
    for (data, what) in [
        (vec![], "breaks off"),
        (vec![START], "breaks off"),
        (vec![START, &end], "breaks off"),
        (vec!["garbage"], "an unknown format"),
        (vec!["{}"], "an unknown format"),
        (vec![START, &lost], "never made"),
    ] {
        let AttemptError::Passing { message, .. } = trouble(&data) else { panic!("{data:?}") };
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn an_error_in_the_middle_is_judged_by_what_it_says() {
    let error = |kind: &str, message: &str| {
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}}}}"#)
    };
    for (kind, message, code) in [
        ("overloaded_error", "Overloaded", None),
        ("api_error", "Internal server error", None),
        ("rate_limit_error", "This request would exceed your rate limit", None),
        ("invalid_request_error", "no", Some(ModelFailureCode::Rejected)),
        ("invalid_request_error", "prompt is too long: 1 > 0", Some(ModelFailureCode::ContextTooLong)),
        ("authentication_error", "invalid x-api-key", Some(ModelFailureCode::Credentials)),
    ] {
        let found = match trouble(&[START, &error(kind, message)]) {
            AttemptError::Final(failure) => Some(failure.code),
            AttemptError::Passing { .. } | AttemptError::Stranger(_) => None,
        };
        assert_eq!(found, code, "{kind}");
    }
    assert!(matches!(trouble(&[r#"{"type":"error"}"#]), AttemptError::Passing { .. }));
}

#[test]
fn a_flood_of_calls_is_stopped() {
    let mut answer = AnthropicAnswer::default();
    let flood = (0..=MAX_CALLS)
        .any(|index| answer.take(&block(index, r#"{"type":"tool_use","id":"x","name":"a"}"#)).is_err());
    assert!(flood);
}
