//! OpenAI's chat completions, which Ollama, vLLM, llama.cpp and OpenRouter speak too.
//!
//! Pure translation in both directions. Servers of this family leave out different members, so hardly any is required.

use sandyard_protocol::{
    ModelCall, ModelEvent, ModelMessage, ModelPart, ModelUsage, StopReason, ToolCall, ToolResult,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::failures::{AttemptError, ProviderError};
use super::tool_arguments::arguments_object;

/// Tool calls in one answer. An answer with more is invalid; models ask for a few.
const MAX_CALLS: usize = 128;

/// The member that bounds the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerLimit {
    /// OpenAI's own, whose newer models reject `max_tokens`.
    MaxCompletionTokens,
    /// The older one. Ollama and others ignore `max_completion_tokens`.
    MaxTokens,
}

/// Returns the body of a request.
pub(super) fn request(call: &ModelCall, model: &str, limit: AnswerLimit) -> Value {
    let mut messages = Vec::with_capacity(call.messages.len() + 1);
    if !call.system.is_empty() {
        messages.push(json!({ "role": "system", "content": call.system }));
    }
    for message in &call.messages {
        write_message(message, &mut messages);
    }
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    let longest = match limit {
        AnswerLimit::MaxCompletionTokens => "max_completion_tokens",
        AnswerLimit::MaxTokens => "max_tokens",
    };
    body[longest] = json!(call.max_tokens);
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
                        let function = json!({ "name": call.name, "arguments": arguments(&call.arguments) });
                        json!({ "id": call.id, "type": "function", "function": function })
                    })
                    .collect();
            }
            messages.push(said);
        }
        ModelMessage::Tools { results } => write_results(results, messages),
    }
}

/// Returns arguments as the model wrote them, if they are an object. vLLM, llama.cpp and Ollama parse them, and reject the
/// whole conversation otherwise.
fn arguments(written: &str) -> String {
    match serde_json::from_str(written) {
        Ok(Value::Object(_)) => written.to_owned(),
        _ => arguments_object(written).to_string(),
    }
}

/// Tool results are text only in this format; pictures follow in a message of the user.
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
    match parts {
        [] => return json!(""),
        [ModelPart::Text { text }] => return json!(text),
        _ => {}
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

// Any member may be missing or null: vLLM ends with `"choices": null`, others leave out empty members.

#[derive(Debug, Deserialize)]
struct CompletionChunk {
    choices: Option<Vec<ChunkChoice>>,
    usage: Option<OpenAiUsage>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct ChunkChoice {
    delta: Option<ChoiceDelta>,
    finish_reason: Option<String>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct ChoiceDelta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct OpenAiUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

/// A tool call while its parts arrive.
#[derive(Debug)]
struct OpenAiCallSlot {
    index: Option<u64>,
    call: ToolCall,
}

/// Parses an answer while it arrives.
#[derive(Debug)]
pub(super) struct OpenAiAnswer {
    /// Makes call ids unique in the conversation if the server sends none.
    turn: usize,
    calls: Vec<OpenAiCallSlot>,
    finish: Option<String>,
    refused: bool,
    usage: ModelUsage,
    /// True once a piece of text or of a call came.
    begun: bool,
    done: bool,
}

impl OpenAiAnswer {
    /// Begins the answer to a conversation of `turn` messages.
    pub(super) fn new(turn: usize) -> Self {
        let usage = ModelUsage::default();
        Self { turn, calls: Vec::new(), finish: None, refused: false, usage, begun: false, done: false }
    }

    /// Takes the data of one server-sent event. Returns the new parts of the answer.
    pub(super) fn take(&mut self, data: &str) -> Result<Vec<ModelEvent>, AttemptError> {
        if data.trim() == "[DONE]" {
            self.done = true;
            return Ok(Vec::new());
        }
        let chunk: CompletionChunk = serde_json::from_str(data)
            .map_err(|_| AttemptError::malformed("an event of an unknown format"))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(ProviderError::of(&error).judge_in_answer());
        }
        if let Some(usage) = chunk.usage {
            self.usage = ModelUsage {
                input: usage.prompt_tokens.unwrap_or(0),
                cached: usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0),
                cache_written: 0,
                output: usage.completion_tokens.unwrap_or(0),
            };
        }
        let mut events = Vec::new();
        for choice in chunk.choices.unwrap_or_default() {
            self.take_choice(choice, &mut events)?;
        }
        self.begun |= !events.is_empty() || !self.calls.is_empty();
        Ok(events)
    }

    fn take_choice(&mut self, choice: ChunkChoice, events: &mut Vec<ModelEvent>) -> Result<(), AttemptError> {
        if let Some(error) = choice.error.filter(|error| !error.is_null()) {
            return Err(ProviderError::of(&error).judge_in_answer());
        }
        if let Some(delta) = choice.delta {
            self.refused |= delta.refusal.as_deref().is_some_and(|words| !words.is_empty());
            for text in [delta.content, delta.refusal].into_iter().flatten().filter(|text| !text.is_empty()) {
                events.push(ModelEvent::Text { text });
            }
            for part in delta.tool_calls.unwrap_or_default() {
                self.take_call(part)?;
            }
        }
        if choice.finish_reason.is_some() {
            self.finish = choice.finish_reason;
        }
        Ok(())
    }

    fn take_call(&mut self, delta: CallDelta) -> Result<(), AttemptError> {
        let id = delta.id.filter(|id| !id.is_empty());
        let function = delta.function.unwrap_or_default();
        let call = self.slot(delta.index, id.as_deref(), function.name.is_some())?;
        if let Some(id) = id {
            call.id = id;
        }
        // Some servers repeat the name with every part.
        let name = function.name.unwrap_or_default();
        if call.name != name {
            call.name.push_str(&name);
        }
        match function.arguments {
            Some(Value::String(text)) => call.arguments.push_str(&text),
            Some(Value::Null) | None => {}
            // Older versions of Ollama send the arguments whole, as an object.
            Some(whole) => call.arguments = whole.to_string(),
        }
        Ok(())
    }

    /// Returns the slot of the call that a part belongs to. Parts of a call carry its index. A new id means a new call even if
    /// the index is not new (Ollama once sent 0 with each call). A named part without an index is a call of its own.
    fn slot(
        &mut self,
        index: Option<u64>,
        id: Option<&str>,
        named: bool,
    ) -> Result<&mut ToolCall, AttemptError> {
        let same = |slot: &OpenAiCallSlot| match index {
            Some(_) => {
                slot.index == index && id.is_none_or(|id| slot.call.id.is_empty() || slot.call.id == id)
            }
            None => id.map_or(!named, |id| slot.call.id == id),
        };
        if let Some(known) = self.calls.iter().rposition(same) {
            return Ok(&mut self.calls[known].call);
        }
        if self.calls.len() >= MAX_CALLS {
            return Err(AttemptError::malformed("too many tool calls"));
        }
        let call = ToolCall { id: String::new(), name: String::new(), arguments: String::new() };
        let new = self.calls.len();
        self.calls.push(OpenAiCallSlot { index, call });
        Ok(&mut self.calls[new].call)
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
        if self.finish.is_none() && !self.done {
            return Err(AttemptError::malformed("an answer that breaks off"));
        }
        let stop = match self.finish.as_deref() {
            Some("error") => return Err(AttemptError::malformed("an answer that ended in an error")),
            _ if self.refused => StopReason::Refused,
            Some("content_filter") => StopReason::Refused,
            Some("length") => StopReason::Length,
            _ if !self.calls.is_empty() => StopReason::Calls,
            _ => StopReason::End,
        };
        let mut events = Vec::with_capacity(self.calls.len() + 1);
        for (number, OpenAiCallSlot { mut call, .. }) in self.calls.into_iter().enumerate() {
            if call.name.is_empty() {
                return Err(AttemptError::malformed("a call without a name"));
            }
            if call.id.is_empty() {
                call.id = format!("call_{}_{number}", self.turn);
            }
            if call.arguments.trim().is_empty() {
                call.arguments = "{}".to_owned();
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
