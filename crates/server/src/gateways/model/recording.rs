//! The form of a recording: JSON lines, a head and then one line for each turn.
//!
//! Answers only: what the model was shown is not in it, but for a hash of the standing part of the prompt (instructions and
//! tools), which must not vary within a job, nor between the run that was recorded and the one that is played.

use sandyard_protocol::{ModelCall, ModelEvent, ModelMessage, ToolCall, ToolSpec};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The form that is written.
pub(super) const FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The form of what follows.
    pub(super) sandyard_recording: u32,
    /// Which model spoke.
    pub(super) model: String,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Turn {
    /// From 1.
    pub(super) turn: usize,
    /// Of the prompt's standing part.
    pub(super) template: String,
    /// What was answered, the end included.
    pub(super) events: Vec<ModelEvent>,
}

impl Turn {
    /// What the model called.
    pub(super) fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.events.iter().filter_map(|event| match event {
            ModelEvent::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// Which turn a call asks for: one more than there were answers.
pub(super) fn turn_of(call: &ModelCall) -> usize {
    1 + answers(call).count()
}

/// What was called in each answer before.
pub(super) fn answers(call: &ModelCall) -> impl Iterator<Item = &[ToolCall]> {
    call.messages.iter().filter_map(|message| match message {
        ModelMessage::Assistant { calls, .. } => Some(calls.as_slice()),
        ModelMessage::User { .. } | ModelMessage::Tools { .. } => None,
    })
}

/// The hash of a prompt's standing part.
pub(super) fn template_of(call: &ModelCall) -> String {
    template(&call.system, &call.tools)
}

fn template(system: &str, tools: &[ToolSpec]) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(system);
    for tool in tools {
        add(&tool.name);
        add(&tool.description);
        add(&tool.parameters.to_string());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A recording made of answers that nobody gave: each is what would have been told, its end included.
pub fn recording_of(
    model: &str,
    system: &str,
    tools: &[ToolSpec],
    answers: Vec<Vec<ModelEvent>>,
) -> Result<String, serde_json::Error> {
    let head = Head { sandyard_recording: FORMAT, model: model.to_owned() };
    let mut lines = vec![serde_json::to_string(&head)?];
    for (turn, events) in (1..).zip(answers) {
        lines.push(serde_json::to_string(&Turn { turn, template: template(system, tools), events })?);
    }
    Ok(lines.join("\n"))
}

/// Words that follow each other become one event, so that a recording does not depend on how they came.
pub(super) fn gather(events: &mut Vec<ModelEvent>, event: ModelEvent) {
    match (events.last_mut(), event) {
        (Some(ModelEvent::Text { text }), ModelEvent::Text { text: more }) => text.push_str(&more),
        (_, event) => events.push(event),
    }
}
