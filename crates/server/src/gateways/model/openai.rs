//! The form of OpenAI's chat completions, which Ollama, vLLM, llama.cpp and OpenRouter speak too.
//!
//! Pure translation, both ways. Servers of this family differ in what they leave out, so only what is needed is required.

use std::collections::BTreeMap;

use sandyard_protocol::{
    ModelCall, ModelEvent, ModelMessage, ModelPart, ModelUsage, StopReason, ToolCall, ToolResult,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Malformed;

/// Calls in one answer; more are a fault of the server.
const MOST_CALLS: usize = 128;

/// The body of a request.
pub(super) fn request(call: &ModelCall, model: &str) -> Value {
    let mut messages = vec![json!({ "role": "system", "content": call.system })];
    for message in &call.messages {
        write_message(message, &mut messages);
    }
    let mut body = json!({
        "model": model,
        "messages": messages,
        "max_completion_tokens": call.max_tokens,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !call.tools.is_empty() {
        body["tools"] = call
            .tools
            .iter()
            .map(|tool| {
                let function =
                    json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
                json!({ "type": "function", "function": function })
            })
            .collect();
    }
    body
}

fn write_message(message: &ModelMessage, messages: &mut Vec<Value>) {
    match message {
        ModelMessage::User { parts } => messages.push(json!({ "role": "user", "content": content(parts) })),
        ModelMessage::Assistant { text, calls } => {
            let mut said = json!({ "role": "assistant", "content": text });
            if !calls.is_empty() {
                said["tool_calls"] = calls
                    .iter()
                    .map(|call| {
                        let function = json!({ "name": call.name, "arguments": call.arguments });
                        json!({ "id": call.id, "type": "function", "function": function })
                    })
                    .collect();
            }
            messages.push(said);
        }
        ModelMessage::Tools { results } => write_results(results, messages),
    }
}

/// Results are words only; pictures follow as if the user showed them.
fn write_results(results: &[ToolResult], messages: &mut Vec<Value>) {
    let mut pictures = Vec::new();
    for result in results {
        let words: Vec<&str> = result
            .parts
            .iter()
            .filter_map(|part| match part {
                ModelPart::Text { text } => Some(text.as_str()),
                ModelPart::Png { .. } => None,
            })
            .collect();
        messages.push(json!({ "role": "tool", "tool_call_id": result.call, "content": words.join("\n") }));
        pictures.extend(result.parts.iter().filter(|part| matches!(part, ModelPart::Png { .. })).cloned());
    }
    if !pictures.is_empty() {
        messages.push(json!({ "role": "user", "content": content(&pictures) }));
    }
}

fn content(parts: &[ModelPart]) -> Value {
    if let [ModelPart::Text { text }] = parts {
        return json!(text);
    }
    parts
        .iter()
        .map(|part| match part {
            ModelPart::Text { text } => json!({ "type": "text", "text": text }),
            ModelPart::Png { base64 } => {
                json!({ "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{base64}") } })
            }
        })
        .collect()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk {
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice {
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CallDelta {
    index: Option<usize>,
    id: Option<String>,
    function: FunctionDelta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

/// An answer on its way in.
#[derive(Debug, Default)]
pub(super) struct Answer {
    calls: BTreeMap<usize, ToolCall>,
    finish: Option<String>,
    refused: bool,
    usage: ModelUsage,
    done: bool,
}

impl Answer {
    /// Takes the data of one event; returns what is new.
    pub(super) fn take(&mut self, data: &str) -> Result<Vec<ModelEvent>, Malformed> {
        if data.trim() == "[DONE]" {
            self.done = true;
            return Ok(Vec::new());
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|_| Malformed("an event that is no JSON"))?;
        if chunk.error.is_some() {
            return Err(Malformed("an error in the middle of its answer"));
        }
        if let Some(usage) = chunk.usage {
            let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
            self.usage = ModelUsage { input: usage.prompt_tokens, cached, output: usage.completion_tokens };
        }
        let mut events = Vec::new();
        for choice in chunk.choices {
            self.take_choice(choice, &mut events)?;
        }
        Ok(events)
    }

    fn take_choice(&mut self, choice: Choice, events: &mut Vec<ModelEvent>) -> Result<(), Malformed> {
        self.refused |= choice.delta.refusal.as_deref().is_some_and(|words| !words.is_empty());
        let words = [choice.delta.content, choice.delta.refusal];
        for text in words.into_iter().flatten().filter(|text| !text.is_empty()) {
            events.push(ModelEvent::Text { text });
        }
        for delta in choice.delta.tool_calls.unwrap_or_default() {
            self.take_call(delta)?;
        }
        if choice.finish_reason.is_some() {
            self.finish = choice.finish_reason;
        }
        Ok(())
    }

    /// Parts of a call carry its index; servers that send whole calls leave it out.
    fn take_call(&mut self, delta: CallDelta) -> Result<(), Malformed> {
        let index = delta.index.unwrap_or(self.calls.len());
        if index >= MOST_CALLS {
            return Err(Malformed("more calls than anybody makes"));
        }
        let empty = || ToolCall { id: String::new(), name: String::new(), arguments: String::new() };
        let call = self.calls.entry(index).or_insert_with(empty);
        if let Some(id) = delta.id.filter(|id| !id.is_empty()) {
            call.id = id;
        }
        call.name.push_str(&delta.function.name.unwrap_or_default());
        match delta.function.arguments {
            Some(Value::String(text)) => call.arguments.push_str(&text),
            Some(Value::Null) | None => {}
            Some(whole) => call.arguments = whole.to_string(),
        }
        Ok(())
    }

    /// The end of the stream: the calls, and why it ended. A stream that was cut off has no answer.
    pub(super) fn finish(self) -> Result<Vec<ModelEvent>, Malformed> {
        if self.finish.is_none() && !self.done {
            return Err(Malformed("an answer that breaks off"));
        }
        let stop = match self.finish.as_deref() {
            _ if self.refused => StopReason::Refused,
            Some("content_filter") => StopReason::Refused,
            Some("length") => StopReason::Length,
            _ if !self.calls.is_empty() => StopReason::Calls,
            _ => StopReason::End,
        };
        let mut events = Vec::with_capacity(self.calls.len() + 1);
        for (index, mut call) in self.calls {
            if call.name.is_empty() {
                return Err(Malformed("a call without a name"));
            }
            if call.id.is_empty() {
                call.id = format!("call_{index}");
            }
            events.push(ModelEvent::Call(call));
        }
        events.push(ModelEvent::Done { stop, usage: self.usage });
        Ok(events)
    }
}

#[cfg(test)]
#[path = "openai_tests.rs"]
mod tests;
