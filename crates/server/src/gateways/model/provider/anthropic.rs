//! Anthropic's messages. Pure translation in both directions.
//!
//! The instructions, the tools and the conversation up to its last message are marked for the provider's cache, because the
//! next call repeats them.

use sandyard_protocol::{
    ModelCall, ModelEvent, ModelMessage, ModelPart, ModelUsage, StopReason, ToolCall, ToolResult,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::failures::{AttemptError, ProviderError};
use super::tool_arguments::arguments_object;

/// Tool calls in one answer. An answer with more is invalid; models ask for a few.
const MAX_CALLS: usize = 128;

/// Returns the body of a request.
pub(super) fn request(call: &ModelCall, model: &str) -> Value {
    let mut messages: Vec<Value> = call.messages.iter().map(message).collect();
    mark_for_cache(&mut messages);
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
        // The provider puts tools before the instructions, so this mark covers the tools too.
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

/// Marks the end of the conversation for the next call, and the user's turn before it, where the last call put its mark. The
/// provider searches only twenty blocks back for a cached prefix, and one answer may add more.
fn mark_for_cache(messages: &mut [Value]) {
    let asked = messages.iter_mut().rev().filter(|message| message["role"] == "user");
    for message in asked.take(2) {
        let blocks = message.get_mut("content").and_then(Value::as_array_mut);
        if let Some(block) = blocks.and_then(|blocks| blocks.last_mut()).and_then(Value::as_object_mut) {
            block.insert("cache_control".into(), json!({ "type": "ephemeral" }));
        }
    }
}

fn message(message: &ModelMessage) -> Value {
    match message {
        ModelMessage::User { parts } => json!({ "role": "user", "content": content(parts) }),
        ModelMessage::Assistant { text, calls } => {
            let mut blocks = Vec::with_capacity(calls.len() + 1);
            if !text.trim().is_empty() {
                blocks.push(json!({ "type": "text", "text": text }));
            }
            blocks.extend(calls.iter().map(|call| {
                let input = arguments_object(&call.arguments);
                json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
            }));
            json!({ "role": "assistant", "content": never_empty(blocks) })
        }
        ModelMessage::Tools { results } => {
            json!({ "role": "user", "content": results.iter().map(result).collect::<Vec<_>>() })
        }
    }
}

fn result(result: &ToolResult) -> Value {
    json!({
        "type": "tool_result", "tool_use_id": result.call, "is_error": result.failed, "content": content(&result.parts),
    })
}

/// Converts parts. The provider rejects text of white space only, so it is left out.
fn content(parts: &[ModelPart]) -> Vec<Value> {
    let blocks = parts.iter().filter_map(|part| match part {
        ModelPart::Text { text } if text.trim().is_empty() => None,
        ModelPart::Text { text } => Some(json!({ "type": "text", "text": text })),
        ModelPart::Png { base64 } => {
            let source = json!({ "type": "base64", "media_type": "image/png", "data": base64 });
            Some(json!({ "type": "image", "source": source }))
        }
    });
    never_empty(blocks.collect())
}

fn never_empty(blocks: Vec<Value>) -> Vec<Value> {
    if blocks.is_empty() { vec![json!({ "type": "text", "text": "(nothing)" })] } else { blocks }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicEvent {
    MessageStart {
        message: StartedMessage,
    },
    ContentBlockStart {
        index: usize,
        content_block: ContentBlock,
    },
    ContentBlockDelta {
        index: usize,
        delta: BlockDelta,
    },
    MessageDelta {
        delta: EndedMessage,
        #[serde(default)]
        usage: AnthropicUsage,
    },
    MessageStop,
    Error {
        #[serde(default)]
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct StartedMessage {
    #[serde(default)]
    usage: AnthropicUsage,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlock {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
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
struct EndedMessage {
    stop_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnthropicUsage {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

/// A tool call while its parts arrive.
#[derive(Debug)]
struct AnthropicCallSlot {
    index: usize,
    call: ToolCall,
    /// The input in the first event: empty from Anthropic, complete from some compatible servers.
    input: Value,
}

/// Parses an answer while it arrives.
#[derive(Debug, Default)]
pub(super) struct AnthropicAnswer {
    calls: Vec<AnthropicCallSlot>,
    stop: Option<String>,
    usage: AnthropicUsage,
    /// True once a piece of text or of a call came.
    begun: bool,
    done: bool,
}

impl AnthropicAnswer {
    /// Takes the data of one server-sent event. Returns the new parts of the answer.
    pub(super) fn take(&mut self, data: &str) -> Result<Vec<ModelEvent>, AttemptError> {
        let event: AnthropicEvent = serde_json::from_str(data)
            .map_err(|_| AttemptError::malformed("an event of an unknown format"))?;
        let mut events = Vec::new();
        match event {
            AnthropicEvent::MessageStart { message } => self.count(&message.usage),
            AnthropicEvent::ContentBlockStart { content_block: ContentBlock::Text { text }, .. }
            | AnthropicEvent::ContentBlockDelta { delta: BlockDelta::TextDelta { text }, .. } => {
                events.extend((!text.is_empty()).then_some(ModelEvent::Text { text }));
            }
            AnthropicEvent::ContentBlockStart {
                index,
                content_block: ContentBlock::ToolUse { id, name, input },
            } => {
                if self.calls.len() >= MAX_CALLS {
                    return Err(AttemptError::malformed("too many tool calls"));
                }
                self.calls.push(AnthropicCallSlot {
                    index,
                    call: ToolCall { id, name, arguments: String::new() },
                    input,
                });
            }
            AnthropicEvent::ContentBlockDelta {
                index,
                delta: BlockDelta::InputJsonDelta { partial_json },
            } => {
                let slot = self.calls.iter_mut().find(|slot| slot.index == index);
                let slot =
                    slot.ok_or_else(|| AttemptError::malformed("arguments of a call that it never made"))?;
                slot.call.arguments.push_str(&partial_json);
            }
            AnthropicEvent::MessageDelta { delta, usage } => {
                self.stop = delta.stop_reason.or(self.stop.take());
                self.count(&usage);
            }
            AnthropicEvent::MessageStop => self.done = true,
            AnthropicEvent::Error { error } => return Err(ProviderError::of(&error).judge_in_answer()),
            AnthropicEvent::ContentBlockStart { .. }
            | AnthropicEvent::ContentBlockDelta { .. }
            | AnthropicEvent::Other => {}
        }
        self.begun |= !events.is_empty() || !self.calls.is_empty();
        Ok(events)
    }

    /// Updates the usage. Counts are totals of the message so far: input comes first, output last, and either may be repeated.
    fn count(&mut self, usage: &AnthropicUsage) {
        let known = &mut self.usage;
        known.input_tokens = usage.input_tokens.or(known.input_tokens);
        known.cache_creation_input_tokens =
            usage.cache_creation_input_tokens.or(known.cache_creation_input_tokens);
        known.cache_read_input_tokens = usage.cache_read_input_tokens.or(known.cache_read_input_tokens);
        known.output_tokens = usage.output_tokens.or(known.output_tokens);
    }

    /// True if a part of the answer was taken.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// True if the provider has marked the end of the answer.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Ends the parsing. Returns the tool calls, then `Done`. A stream that was cut off has no answer.
    pub(super) fn finish(self) -> Result<Vec<ModelEvent>, AttemptError> {
        if !self.done {
            return Err(AttemptError::malformed("an answer that breaks off"));
        }
        let stop = match self.stop.as_deref() {
            Some("refusal") => StopReason::Refused,
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
            _ if !self.calls.is_empty() => StopReason::Calls,
            _ => StopReason::End,
        };
        let usage = self.usage.whole();
        let calls = self.calls.into_iter().map(|slot| ModelEvent::Call(slot.finish()));
        Ok(calls.chain([ModelEvent::Done { stop, usage }]).collect())
    }
}

impl AnthropicCallSlot {
    fn finish(mut self) -> ToolCall {
        if self.call.arguments.trim().is_empty() {
            self.call.arguments =
                if self.input.is_object() { self.input.to_string() } else { "{}".to_owned() };
        }
        self.call
    }
}

impl AnthropicUsage {
    /// Adds up the input. The provider counts cached and newly cached tokens separately.
    fn whole(&self) -> ModelUsage {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let cache_written = self.cache_creation_input_tokens.unwrap_or(0);
        let plain = self.input_tokens.unwrap_or(0);
        let input = plain.saturating_add(cached).saturating_add(cache_written);
        ModelUsage { input, cached, cache_written, output: self.output_tokens.unwrap_or(0) }
    }
}

#[cfg(test)]
#[path = "anthropic_tests.rs"]
mod tests;
