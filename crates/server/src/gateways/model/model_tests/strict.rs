//! What the specifications of the providers allow in a request; anything else is named.

use std::collections::BTreeSet;

use axum::http::{HeaderMap, Uri};
use serde_json::Value;

use super::fake::KEY;

type Checked = Result<(), String>;

fn must(holds: bool, what: &str) -> Checked {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// Only these members, and these at least.
fn members(value: &Value, needed: &[&str], optional: &[&str]) -> Checked {
    let object = value.as_object().ok_or_else(|| format!("not an object: {value}"))?;
    for name in needed {
        must(object.contains_key(*name), &format!("no {name} in {value}"))?;
    }
    for name in object.keys() {
        must(
            needed.contains(&name.as_str()) || optional.contains(&name.as_str()),
            &format!("unknown member {name}"),
        )?;
    }
    Ok(())
}

fn header(headers: &HeaderMap, name: &str, value: &str) -> Checked {
    let found = headers.get(name).and_then(|found| found.to_str().ok());
    must(found == Some(value), &format!("the header {name} is not as it should be"))
}

fn array<'a>(value: &'a Value, what: &str) -> Result<&'a Vec<Value>, String> {
    value.as_array().ok_or_else(|| format!("{what} is no list"))
}

fn ids(values: &[Value], member: &str) -> BTreeSet<String> {
    values.iter().filter_map(|value| value[member].as_str()).map(str::to_owned).collect()
}

pub(super) fn openai(uri: &Uri, headers: &HeaderMap, body: &Value) -> Checked {
    must(uri.path() == "/v1/chat/completions", "another path")?;
    header(headers, "authorization", &format!("Bearer {KEY}"))?;
    header(headers, "content-type", "application/json")?;
    let limits = ["max_completion_tokens", "max_tokens"];
    members(body, &["model", "messages", "stream"], &["stream_options", "tools", limits[0], limits[1]])?;
    must(limits.iter().filter(|name| body.get(**name).is_some()).count() == 1, "not one limit")?;
    must(
        limits.iter().all(|name| body.get(*name).is_none_or(|limit| limit.as_u64() > Some(0))),
        "a limit of nothing",
    )?;
    must(body["stream"] == true && body["stream_options"]["include_usage"] == true, "no stream with usage")?;
    for tool in body.get("tools").map_or(Ok(&Vec::new()), |tools| array(tools, "tools"))? {
        members(tool, &["type", "function"], &[])?;
        members(&tool["function"], &["name", "parameters"], &["description"])?;
    }
    let messages = array(&body["messages"], "messages")?;
    must(!messages.is_empty(), "no messages")?;
    let mut open = BTreeSet::new();
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        must(role == "tool" || open.is_empty(), "calls without results")?;
        match role {
            "system" | "user" => {
                members(message, &["role", "content"], &[])?;
                must(
                    message["content"].is_string() || !array(&message["content"], "content")?.is_empty(),
                    "no content",
                )?;
            }
            "assistant" => {
                members(message, &["role", "content"], &["tool_calls"])?;
                let empty = Vec::new();
                let calls = message.get("tool_calls").map_or(Ok(&empty), |calls| array(calls, "calls"))?;
                for call in calls {
                    members(call, &["id", "type", "function"], &[])?;
                    members(&call["function"], &["name", "arguments"], &[])?;
                    let arguments = call["function"]["arguments"].as_str().ok_or("arguments are no text")?;
                    let parsed: Result<Value, _> = serde_json::from_str(arguments);
                    must(parsed.is_ok_and(|value| value.is_object()), "arguments are no object")?;
                }
                open = ids(calls, "id");
            }
            "tool" => {
                members(message, &["role", "tool_call_id", "content"], &[])?;
                must(
                    open.remove(message["tool_call_id"].as_str().unwrap_or_default()),
                    "a result of no call",
                )?;
            }
            other => return Err(format!("unknown role {other}")),
        }
    }
    must(open.is_empty(), "calls without results")
}

pub(super) fn anthropic(uri: &Uri, headers: &HeaderMap, body: &Value) -> Checked {
    must(uri.path() == "/v1/messages", "another path")?;
    header(headers, "x-api-key", KEY)?;
    header(headers, "anthropic-version", "2023-06-01")?;
    header(headers, "content-type", "application/json")?;
    must(headers.get("authorization").is_none(), "two keys")?;
    members(body, &["model", "messages", "max_tokens", "stream"], &["system", "tools"])?;
    must(body["max_tokens"].as_u64() > Some(0) && body["stream"] == true, "no limit or no stream")?;
    must(body.to_string().matches("cache_control").count() <= 4, "more than four marks")?;
    if let Some(system) = body.get("system") {
        array(system, "system")?.iter().try_for_each(block)?;
    }
    for tool in body.get("tools").map_or(Ok(&Vec::new()), |tools| array(tools, "tools"))? {
        members(tool, &["name", "input_schema"], &["description", "cache_control"])?;
        must(tool["input_schema"]["type"] == "object", "a schema of no object")?;
    }
    let messages = array(&body["messages"], "messages")?;
    must(messages.first().is_some_and(|first| first["role"] == "user"), "the first is not the user's")?;
    let mut open = BTreeSet::new();
    for message in messages {
        members(message, &["role", "content"], &[])?;
        let blocks = array(&message["content"], "content")?;
        must(!blocks.is_empty(), "no content")?;
        blocks.iter().try_for_each(block)?;
        let of =
            |kind: &str| blocks.iter().filter(|block| block["type"] == kind).cloned().collect::<Vec<_>>();
        must(ids(&of("tool_result"), "tool_use_id") == open, "results are not those of the calls before")?;
        open = ids(&of("tool_use"), "id");
        must(open.is_empty() || message["role"] == "assistant", "the user calls")?;
    }
    must(open.is_empty(), "calls without results")
}

fn block(block: &Value) -> Checked {
    match block["type"].as_str().unwrap_or_default() {
        "text" => {
            members(block, &["type", "text"], &["cache_control"])?;
            must(!block["text"].as_str().unwrap_or_default().trim().is_empty(), "a text of nothing")
        }
        "image" => {
            members(block, &["type", "source"], &["cache_control"])?;
            members(&block["source"], &["type", "media_type", "data"], &[])
        }
        "tool_use" => {
            members(block, &["type", "id", "name", "input"], &["cache_control"])?;
            must(block["input"].is_object(), "an input that is no object")
        }
        "tool_result" => {
            members(block, &["type", "tool_use_id"], &["content", "is_error", "cache_control"])?;
            array(&block["content"], "a result")?.iter().try_for_each(self::block)
        }
        other => Err(format!("unknown block {other}")),
    }
}
