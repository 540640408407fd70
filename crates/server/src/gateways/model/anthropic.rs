//! The form of Anthropic's messages. Pure translation, both ways.
//!
//! The instructions, the tools and the conversation up to its last message are marked for the provider's cache: the next call
//! repeats them word for word.

use sandyard_protocol::{
    ModelCall, ModelEvent, ModelMessage, ModelPart, ModelUsage, StopReason, ToolCall, ToolResult,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Malformed;

/// Blocks of one answer; more are a fault of the server.
const MOST_BLOCKS: usize = 256;

/// The body of a request.
pub(super) fn request(call: &ModelCall, model: &str) -> Value {
    let mut messages: Vec<Value> = call.messages.iter().map(message).collect();
    if let Some(block) = last_block(&mut messages) {
        block.insert("cache_control".into(), json!({ "type": "ephemeral" }));
    }
    let mut body = json!({
        "model": model,
        "max_tokens": call.max_tokens,
        "stream": true,
        "messages": messages,
    });
    if !call.system.is_empty() {
        body["system"] = json!([{
            "type": "text", "text": call.system, "cache_control": { "type": "ephemeral" },
        }]);
    }
    if !call.tools.is_empty() {
        body["tools"] = call
            .tools
            .iter()
            .map(|tool| {
                json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters })
            })
            .collect();
    }
    body
}

fn last_block(messages: &mut [Value]) -> Option<&mut Map<String, Value>> {
    messages.last_mut()?.get_mut("content")?.as_array_mut()?.last_mut()?.as_object_mut()
}

fn message(message: &ModelMessage) -> Value {
    match message {
        ModelMessage::User { parts } => json!({ "role": "user", "content": content(parts) }),
        ModelMessage::Assistant { text, calls } => {
            let words = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
            let calls = calls.iter().map(|call| {
                json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input(&call.arguments) })
            });
            json!({ "role": "assistant", "content": words.into_iter().chain(calls).collect::<Vec<_>>() })
        }
        ModelMessage::Tools { results } => {
            json!({ "role": "user", "content": results.iter().map(result).collect::<Vec<_>>() })
        }
    }
}

/// The provider takes objects only; whatever else the model wrote is shown to it as it was.
fn input(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => Value::Object(object),
        _ if arguments.trim().is_empty() => json!({}),
        _ => json!({ "malformed_arguments": arguments }),
    }
}

fn result(result: &ToolResult) -> Value {
    json!({
        "type": "tool_result", "tool_use_id": result.call, "is_error": result.failed, "content": content(&result.parts),
    })
}

/// Empty words are refused by the provider.
fn content(parts: &[ModelPart]) -> Vec<Value> {
    let blocks = parts.iter().filter_map(|part| match part {
        ModelPart::Text { text } if text.is_empty() => None,
        ModelPart::Text { text } => Some(json!({ "type": "text", "text": text })),
        ModelPart::Png { base64 } => {
            let source = json!({ "type": "base64", "media_type": "image/png", "data": base64 });
            Some(json!({ "type": "image", "source": source }))
        }
    });
    let blocks: Vec<Value> = blocks.collect();
    if blocks.is_empty() { vec![json!({ "type": "text", "text": "(nothing)" })] } else { blocks }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: usize,
        content_block: Block,
    },
    ContentBlockDelta {
        index: usize,
        delta: BlockDelta,
    },
    MessageDelta {
        delta: End,
        #[serde(default)]
        usage: Usage,
    },
    MessageStop,
    Error,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Start {
    #[serde(default)]
    usage: Usage,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockDelta {
    TextDelta {
        text: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct End {
    stop_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

/// An answer on its way in.
#[derive(Debug, Default)]
pub(super) struct Answer {
    calls: Vec<(usize, ToolCall)>,
    stop: Option<String>,
    usage: ModelUsage,
    done: bool,
}

impl Answer {
    /// Takes the data of one event; returns what is new.
    pub(super) fn take(&mut self, data: &str) -> Result<Vec<ModelEvent>, Malformed> {
        let event: Event = serde_json::from_str(data).map_err(|_| Malformed("an event of no known form"))?;
        let mut events = Vec::new();
        match event {
            Event::MessageStart { message } => self.count(&message.usage),
            Event::ContentBlockStart { content_block: Block::Text { text }, .. } if !text.is_empty() => {
                events.push(ModelEvent::Text { text });
            }
            Event::ContentBlockStart { index, content_block: Block::ToolUse { id, name } } => {
                if self.calls.len() >= MOST_BLOCKS {
                    return Err(Malformed("more calls than anybody makes"));
                }
                self.calls.push((index, ToolCall { id, name, arguments: String::new() }));
            }
            Event::ContentBlockDelta { delta: BlockDelta::TextDelta { text }, .. } => {
                events.push(ModelEvent::Text { text });
            }
            Event::ContentBlockDelta { index, delta: BlockDelta::InputJsonDelta { partial_json } } => {
                let call = self.calls.iter_mut().find(|(known, _)| *known == index);
                let (_, call) = call.ok_or(Malformed("arguments of a call that it never made"))?;
                call.arguments.push_str(&partial_json);
            }
            Event::MessageDelta { delta, usage } => {
                self.stop = delta.stop_reason.or(self.stop.take());
                self.count(&usage);
            }
            Event::MessageStop => self.done = true,
            Event::Error => return Err(Malformed("an error in the middle of its answer")),
            Event::ContentBlockStart { .. } | Event::ContentBlockDelta { .. } | Event::Other => {}
        }
        Ok(events)
    }

    /// Counts are of the whole message so far; input is told at the start, output at the end.
    fn count(&mut self, usage: &Usage) {
        let parts = [usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens];
        if parts.iter().any(Option::is_some) {
            self.usage.input = parts.into_iter().flatten().fold(0, u64::saturating_add);
            self.usage.cached = usage.cache_read_input_tokens.unwrap_or(0);
        }
        self.usage.output = usage.output_tokens.unwrap_or(self.usage.output);
    }

    /// The end of the stream: the calls, and why it ended. A stream that was cut off has no answer.
    pub(super) fn finish(self) -> Result<Vec<ModelEvent>, Malformed> {
        if !self.done {
            return Err(Malformed("an answer that breaks off"));
        }
        let stop = match self.stop.as_deref() {
            Some("refusal") => StopReason::Refused,
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
            _ if !self.calls.is_empty() => StopReason::Calls,
            _ => StopReason::End,
        };
        let calls = self.calls.into_iter().map(|(_, call)| ModelEvent::Call(call));
        Ok(calls.chain([ModelEvent::Done { stop, usage: self.usage }]).collect())
    }
}

#[cfg(test)]
#[path = "anthropic_tests.rs"]
mod tests;
