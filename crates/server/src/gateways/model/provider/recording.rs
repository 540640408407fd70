//! The format of a recording: JSON lines, a head and then one line for each turn.
//!
//! A recording holds answers only. Of the prompt it holds a hash of the template (instructions and tools), which must be the
//! same in all turns of a job, and in the recorded run and the replayed one.

use sandyard_protocol::{ModelCall, ModelEvent, ModelMessage, ToolCall, ToolSpec};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Version of the format.
pub(super) const FORMAT: u32 = 1;

/// The first line of a recording. It names the format and the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordingHead {
    /// Version of the format.
    pub(super) sandyard_recording: u32,
    /// Name of the recorded model.
    pub(super) model: String,
}

/// One recorded answer: a line of the recording after the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ReplayTurn {
    /// Number of the turn, from 1.
    pub(super) turn: usize,
    /// Hash of the prompt's template.
    pub(super) template: String,
    /// The whole answer, with its end.
    pub(super) events: Vec<ModelEvent>,
}

impl ReplayTurn {
    /// Returns the tool calls of the answer.
    pub(super) fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.events.iter().filter_map(|event| match event {
            ModelEvent::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// Returns the number of the turn that a call asks for.
pub(super) fn turn_of(call: &ModelCall) -> usize {
    1 + answers(call).count()
}

/// Returns the tool calls of each earlier answer.
pub(super) fn answers(call: &ModelCall) -> impl Iterator<Item = &[ToolCall]> {
    call.messages.iter().filter_map(|message| match message {
        ModelMessage::Assistant { calls, .. } => Some(calls.as_slice()),
        ModelMessage::User { .. } | ModelMessage::Tools { .. } => None,
    })
}

/// Returns the hash of the prompt's template.
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
    hex::encode(hash.finalize())
}

/// Makes a recording from scripted answers. Each answer is the list of its events, with its end.
pub fn recording_of(
    model: &str,
    system: &str,
    tools: &[ToolSpec],
    answers: Vec<Vec<ModelEvent>>,
) -> Result<String, serde_json::Error> {
    let head = RecordingHead { sandyard_recording: FORMAT, model: model.to_owned() };
    let mut lines = vec![serde_json::to_string(&head)?];
    for (turn, events) in (1..).zip(answers) {
        lines.push(serde_json::to_string(&ReplayTurn { turn, template: template(system, tools), events })?);
    }
    Ok(lines.join("\n"))
}

/// Appends an event. Adjacent text becomes one event, so that a recording does not depend on the provider's chunks.
pub(in crate::gateways::model) fn gather(events: &mut Vec<ModelEvent>, event: ModelEvent) {
    match (events.last_mut(), event) {
        (Some(ModelEvent::Text { text }), ModelEvent::Text { text: more }) => text.push_str(&more),
        (_, event) => events.push(event),
    }
}
