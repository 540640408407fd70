use sandyard_protocol::{ModelFailureCode, ToolSpec};

use super::*;

fn conversation() -> ModelCall {
    let text = |text: &str| ModelPart::Text { text: text.into() };
    let picture = ModelPart::Png { base64: "cGljdHVyZQ==".into() };
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "shell".into(),
        arguments: arguments.into(),
    };
    let result = |call: &str, parts: Vec<ModelPart>| ToolResult { call: call.into(), parts, failed: false };
    ModelCall {
        number: 1,
        model: None,
        system: "Be brief.".into(),
        messages: vec![
            ModelMessage::User { parts: vec![text("look"), picture.clone()] },
            ModelMessage::Assistant {
                text: String::new(),
                calls: vec![call("a", r#"{ "b": 1, "a": 2 }"#), call("b", "not json"), call("c", "")],
            },
            ModelMessage::Tools {
                results: vec![
                    result("a", vec![text("one"), text("two")]),
                    result("b", vec![picture, text("seen")]),
                    result("c", vec![]),
                ],
            },
            ModelMessage::Assistant { text: "Done.".into(), calls: vec![] },
            ModelMessage::User { parts: vec![text("thanks")] },
        ],
        tools: vec![ToolSpec {
            name: "shell".into(),
            description: "Runs a command.".into(),
            parameters: json!({ "type": "object", "properties": { "command": { "type": "string" } } }),
        }],
        max_tokens: 1000,
        packing: Vec::new(),
    }
}

#[test]
fn a_conversation_is_written_as_the_specification_says() {
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,cGljdHVyZQ==" } });
    let call = |id: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": "shell", "arguments": arguments } });
    let expected = json!({
        "model": "gpt-x",
        "stream": true,
        "stream_options": { "include_usage": true },
        "max_completion_tokens": 1000,
        "tools": [{ "type": "function", "function": {
            "name": "shell",
            "description": "Runs a command.",
            "parameters": { "type": "object", "properties": { "command": { "type": "string" } } },
        } }],
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "look" }, image] },
            { "role": "assistant", "content": "", "tool_calls": [
                call("a", r#"{ "b": 1, "a": 2 }"#),
                call("b", r#"{"malformed_arguments":"not json"}"#),
                call("c", "{}"),
            ] },
            { "role": "tool", "tool_call_id": "a", "content": "one\ntwo" },
            { "role": "tool", "tool_call_id": "b", "content": "seen" },
            { "role": "tool", "tool_call_id": "c", "content": "" },
            { "role": "user", "content": [image] },
            { "role": "assistant", "content": "Done." },
            { "role": "user", "content": "thanks" },
        ],
    });
    assert_eq!(request(&conversation(), "gpt-x", AnswerLimit::MaxCompletionTokens), expected);
}

#[test]
fn servers_that_know_only_the_old_limit_get_that() {
    let body = request(&conversation(), "llama3", AnswerLimit::MaxTokens);
    assert_eq!(body["max_tokens"], 1000);
    assert_eq!(body.get("max_completion_tokens"), None);
}

#[test]
fn what_is_empty_is_left_out() {
    let call = ModelCall {
        system: String::new(),
        tools: vec![],
        messages: vec![ModelMessage::User { parts: vec![] }],
        ..conversation()
    };
    let body = request(&call, "m", AnswerLimit::MaxTokens);
    assert_eq!(body["messages"], json!([{ "role": "user", "content": "" }]));
    assert_eq!(body.get("tools"), None);
}

/// All events of a stream.
fn hear(data: &[&str]) -> Result<Vec<ModelEvent>, AttemptError> {
    let mut answer = OpenAiAnswer::new(3);
    let mut events = Vec::new();
    for data in data {
        events.extend(answer.take(data)?);
    }
    events.extend(answer.finish()?);
    Ok(events)
}

fn delta(delta: &str) -> String {
    format!(
        r#"{{"id":"1","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#
    )
}

fn finished(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

/// A stream of deltas that ends for a reason.
fn heard(deltas: &[&str], reason: &str) -> Vec<ModelEvent> {
    let mut data: Vec<String> = deltas.iter().map(|text| delta(text)).collect();
    data.push(finished(reason));
    data.push("[DONE]".into());
    hear(&data.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text { text: text.into() }
}

fn called(id: &str, name: &str, arguments: &str) -> ModelEvent {
    ModelEvent::Call(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
}

fn done(stop: StopReason) -> ModelEvent {
    ModelEvent::Done { stop, usage: ModelUsage::default() }
}

#[test]
fn words_come_as_they_come_and_usage_at_the_end() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":5,"total_tokens":35,"prompt_tokens_details":{"cached_tokens":20,"audio_tokens":0}}}"#;
    let (hel, lo) = (delta(r#"{"content":"Hel"}"#), delta(r#"{"content":"lo"}"#));
    let first = delta(r#"{"role":"assistant","content":"","refusal":null}"#);
    let stop = finished("stop");
    let events = hear(&[&first, &hel, &lo, &stop, usage, "[DONE]"]).unwrap();
    let usage = ModelUsage { input: 30, cached: 20, cache_written: 0, output: 5 };
    assert_eq!(events, [text("Hel"), text("lo"), ModelEvent::Done { stop: StopReason::End, usage }]);
}

#[test]
fn calls_that_come_in_parts_are_put_together() {
    let events = heard(
        &[
            r#"{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"shell","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"com"}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"view","arguments":"{}"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"mand\":1}"}}]}"#,
        ],
        "tool_calls",
    );
    let expected = [
        called("call_a", "shell", r#"{"command":1}"#),
        called("call_b", "view", "{}"),
        done(StopReason::Calls),
    ];
    assert_eq!(events, expected);
}

#[test]
fn whole_calls_are_calls_of_their_own() {
    // Without an index; with the same index and other ids; without ids.
    for deltas in [
        r#"{"tool_calls":[{"id":"x","function":{"name":"a","arguments":"{\"n\":1}"}},{"id":"y","function":{"name":"b","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{\"n\":1}"}},{"index":0,"id":"y","function":{"name":"b","arguments":"{}"}}]}"#,
    ] {
        let expected = [called("x", "a", r#"{"n":1}"#), called("y", "b", "{}"), done(StopReason::Calls)];
        assert_eq!(heard(&[deltas], "tool_calls"), expected, "{deltas}");
    }
    let nameless = r#"{"tool_calls":[{"function":{"name":"a","arguments":"{}"}},{"function":{"name":"a","arguments":"{}"}}]}"#;
    let expected = [called("call_3_0", "a", "{}"), called("call_3_1", "a", "{}"), done(StopReason::Calls)];
    assert_eq!(heard(&[nameless], "stop"), expected, "calls count even where the reason is another");
}

#[test]
fn parts_without_an_index_go_on_with_the_last_call() {
    let events = heard(
        &[
            r#"{"tool_calls":[{"id":"x","function":{"name":"a","arguments":"{\"n\""}}]}"#,
            r#"{"tool_calls":[{"function":{"arguments":":1}"}}]}"#,
        ],
        "tool_calls",
    );
    assert_eq!(events[0], called("x", "a", r#"{"n":1}"#));
}

#[test]
fn arguments_may_be_an_object_or_nothing_and_names_may_be_repeated() {
    let object = r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":{"n":1}}}]}"#;
    assert_eq!(heard(&[object], "tool_calls")[0], called("x", "a", r#"{"n":1}"#));
    for nothing in ["null", r#""""#] {
        let nothing = format!(
            r#"{{"tool_calls":[{{"index":0,"id":"x","function":{{"name":"a","arguments":{nothing}}}}}]}}"#
        );
        assert_eq!(heard(&[&nothing], "tool_calls")[0], called("x", "a", "{}"));
    }
    let repeated = r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{"}}]}"#;
    let more = r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"}"}}]}"#;
    assert_eq!(heard(&[repeated, more], "tool_calls")[0], called("x", "a", "{}"));
}

#[test]
fn malformed_arguments_are_passed_on_as_written() {
    let bad = r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{\"n\": oops"}}]}"#;
    assert_eq!(heard(&[bad], "tool_calls")[0], called("x", "a", r#"{"n": oops"#));
    // Cut off by the limit: the call is told, and so is why it may be broken.
    assert_eq!(heard(&[bad], "length")[1], done(StopReason::Length));
}

#[test]
fn refusals_and_filters_are_refusals() {
    let refusal = heard(&[r#"{"refusal":"I can't"}"#, r#"{"refusal":" help."}"#], "stop");
    assert_eq!(refusal, [text("I can't"), text(" help."), done(StopReason::Refused)]);
    assert_eq!(heard(&[], "content_filter"), [done(StopReason::Refused)]);
}

#[test]
fn an_empty_answer_is_an_answer() {
    assert_eq!(heard(&[], "stop"), [done(StopReason::End)]);
    assert_eq!(hear(&["[DONE]"]).unwrap(), [done(StopReason::End)]);
}

#[test]
fn thoughts_and_what_is_not_known_are_left_out() {
    let deltas = [
        r#"{"role":"assistant","reasoning_content":"hm"}"#,
        r#"{"reasoning":"hm","reasoning_details":[{"type":"x"}]}"#,
        r#"{"content":"Yes","annotations":[],"audio":null,"function_call":null}"#,
        "null",
    ];
    assert_eq!(heard(&deltas, "stop"), [text("Yes"), done(StopReason::End)]);
}

#[test]
fn members_may_be_missing_or_null() {
    let stop = finished("stop");
    for odd in [
        r#"{"choices":null,"usage":null}"#,
        "{}",
        r#"{"choices":[{}]}"#,
        r#"{"choices":[{"delta":null,"finish_reason":null,"error":null}],"error":null}"#,
        r#"{"usage":{"prompt_tokens":null,"prompt_tokens_details":null}}"#,
        r#"{"usage":{"prompt_tokens_details":{"cached_tokens":null}}}"#,
    ] {
        assert_eq!(hear(&[odd, &stop]).unwrap(), [done(StopReason::End)], "{odd}");
    }
}

fn trouble(data: &[&str]) -> AttemptError {
    hear(data).unwrap_err()
}

#[test]
fn what_breaks_off_or_is_garbage_may_be_better_next_time() {
    let words = delta(r#"{"content":"Hel"}"#);
    let nameless = delta(r#"{"tool_calls":[{"index":0,"id":"x","function":{"arguments":"{}"}}]}"#);
    let (stop, error) = (finished("stop"), finished("error"));
    for (data, what) in [
        (vec![words.as_str()], "breaks off"),
        (vec![], "breaks off"),
        (vec!["garbage"], "an unknown format"),
        (vec![r#"{"choices":"many"}"#], "an unknown format"),
        (vec![&nameless, &stop], "without a name"),
        (vec![&error], "ended in an error"),
    ] {
        let AttemptError::Passing { message, .. } = trouble(&data) else { panic!("{data:?}") };
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn a_flood_of_calls_is_stopped() {
    let mut answer = OpenAiAnswer::new(0);
    let flood = (0..=MAX_CALLS).any(|index| {
        let call =
            format!(r#"{{"tool_calls":[{{"index":{index},"id":"{index}","function":{{"name":"a"}}}}]}}"#);
        answer.take(&delta(&call)).is_err()
    });
    assert!(flood);
    let far = delta(
        r#"{"tool_calls":[{"index":18446744073709551615,"id":"x","function":{"name":"a","arguments":"{}"}}]}"#,
    );
    assert!(OpenAiAnswer::new(0).take(&far).is_ok(), "an index is a name, no place in memory");
}

#[test]
fn an_error_in_the_middle_is_judged_by_what_it_says() {
    let words = delta(r#"{"content":"Hel"}"#);
    let overloaded = r#"{"error":{"message":"Provider overloaded","code":502}}"#;
    assert!(matches!(trouble(&[&words, overloaded]), AttemptError::Passing { .. }));
    let too_long = r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#;
    let AttemptError::Final(failure) = trouble(&[too_long]) else { panic!() };
    assert_eq!(failure.code, ModelFailureCode::ContextTooLong);
    let in_choice = r#"{"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":400,"type":"invalid_request_error","message":"no"}}]}"#;
    let AttemptError::Final(failure) = trouble(&[in_choice]) else { panic!() };
    assert_eq!(failure.code, ModelFailureCode::Rejected);
}
