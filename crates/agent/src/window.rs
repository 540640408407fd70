//! The model's window: the conversation as messages, and the choice of entries to leave out when the window is nearly full.
//!
//! Packing happens rarely and in large steps, because every change of earlier messages invalidates the provider's cache. First, old
//! results become stubs; then whole old turns are left out. The task, the words of people and the newest turns always stay. A
//! recording is compared answer by answer, so a replay keeps all turns.

use sandyard_protocol::{ModelFacts, ModelMessage, ModelPart, ToolSpec};

use crate::conversation::{Conversation, ConversationNote, ConversationTurn};
use crate::prompt;
use crate::tokens::{self, Correction};

/// Packing starts when this share of the room is used.
const FULL_PERCENT: u64 = 85;
/// Packing stops when no more than this share of the room is used.
const PACKED_PERCENT: u64 = 55;
/// The newest turns, whose results stay whole.
const WHOLE_TURNS: usize = 6;
/// Pictures in one call; older ones show a screen that has changed since.
const PICTURES: usize = 12;
/// Pictures that stay when there are too many.
const PICTURES_KEPT: usize = 4;
/// Bytes of all parts together: half of what a call may have, for the rest of the call and for JSON.
const CALL_BYTES: usize = sandyard_protocol::limits::MODEL_CALL_BYTES / 2;

/// The room for a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Tokens for instructions, tools and messages.
    room: u64,
    /// True if the model accepts pictures.
    sees: bool,
    /// True if whole turns may be left out.
    may_drop_turns: bool,
}

impl Window {
    /// The window of a model.
    pub(crate) fn of(model: &ModelFacts) -> Self {
        let output = u64::from(model.max_output_tokens).min(u64::from(model.window_tokens) / 2);
        let room = u64::from(model.window_tokens).saturating_sub(output);
        Self { room, sees: model.sees, may_drop_turns: !model.replay }
    }

    /// A window of half the size, for a model that reports a smaller window than was configured.
    pub(crate) fn shrunk(self) -> Self {
        Self { room: self.room / 2, ..self }
    }

    /// The conversation as messages.
    pub(crate) fn messages(&self, conversation: &Conversation) -> Vec<ModelMessage> {
        let mut messages = vec![self.head(conversation)];
        for turn in conversation.turns() {
            self.turn(turn, &mut messages);
        }
        messages
    }

    fn head(&self, conversation: &Conversation) -> ModelMessage {
        let (notes, left_out) = conversation.head();
        let mut parts = texts(notes);
        if left_out.turns > 0 {
            parts.push(ModelPart::Text {
                text: prompt::left_out(left_out.turns, left_out.last, &left_out.plan),
            });
        }
        ModelMessage::User { parts }
    }

    fn turn(&self, turn: &ConversationTurn, messages: &mut Vec<ModelMessage>) {
        let calls = turn.calls.iter().map(|call| call.call.clone()).collect();
        messages.push(ModelMessage::Assistant { text: turn.text.clone(), calls });
        let mut results = turn.results();
        if !results.is_empty() {
            for result in &mut results {
                self.show_pictures(&mut result.parts);
            }
            messages.push(ModelMessage::Tools { results });
        }
        if !turn.after.is_empty() {
            messages.push(ModelMessage::User { parts: texts(&turn.after) });
        }
    }

    fn show_pictures(&self, parts: &mut [ModelPart]) {
        for part in parts.iter_mut().filter(|part| !self.sees && matches!(part, ModelPart::Png { .. })) {
            *part = ModelPart::Text { text: "(A picture, which you can't see.)".into() };
        }
    }

    /// Journal numbers of the entries to pack before the next call; none while there is room.
    pub(crate) fn pack(
        &self,
        conversation: &Conversation,
        tools: &[ToolSpec],
        correction: Correction,
    ) -> Vec<u64> {
        let mut load = Load::of(conversation, tools);
        let mut numbers = Vec::new();
        let too_many_pictures = self.sees && load.pictures > PICTURES;
        if correction.apply(load.tokens) <= self.room * FULL_PERCENT / 100
            && load.bytes <= CALL_BYTES
            && !too_many_pictures
        {
            return numbers;
        }
        let turns = conversation.turns();
        let old = turns.len().saturating_sub(WHOLE_TURNS);
        let fits = |load: &Load| {
            correction.apply(load.tokens) <= self.room * PACKED_PERCENT / 100
                && load.bytes <= CALL_BYTES * 3 / 4
        };
        for turn in turns.iter().take(old) {
            for ended in
                turn.calls.iter().filter_map(|call| call.ended.as_ref()).filter(|ended| !ended.packed)
            {
                if fits(&load) && (!self.sees || load.pictures <= PICTURES_KEPT) {
                    return numbers;
                }
                load.without(&ended.parts);
                numbers.push(ended.number);
            }
        }
        if self.may_drop_turns {
            for turn in turns.iter().take(old) {
                if fits(&load) {
                    return numbers;
                }
                load.tokens = load.tokens.saturating_sub(remaining(turn));
                numbers.push(turn.number);
            }
        }
        // Even the newest results are too much: all but the very last become stubs.
        for turn in turns.iter().skip(old).take(turns.len().saturating_sub(old + 1)) {
            for ended in
                turn.calls.iter().filter_map(|call| call.ended.as_ref()).filter(|ended| !ended.packed)
            {
                if fits(&load) {
                    return numbers;
                }
                load.without(&ended.parts);
                numbers.push(ended.number);
            }
        }
        numbers
    }
}

/// Estimated tokens of a whole call, before correction.
pub(crate) fn estimate(conversation: &Conversation, tools: &[ToolSpec]) -> u64 {
    Load::of(conversation, tools).tokens
}

fn texts(notes: &[ConversationNote]) -> Vec<ModelPart> {
    notes.iter().map(|note| ModelPart::Text { text: note.text.clone() }).collect()
}

/// The size of a conversation.
struct Load {
    tokens: u64,
    bytes: usize,
    pictures: usize,
}

/// Tokens of a stub.
const STUB_TOKENS: u64 = 70;

impl Load {
    fn of(conversation: &Conversation, tools: &[ToolSpec]) -> Self {
        let (head, _) = conversation.head();
        let standing: u64 = tools
            .iter()
            .map(|tool| tokens::of_text(&tool.description) + tokens::of_text(&tool.parameters.to_string()))
            .sum();
        let mut load = Self { tokens: standing + tokens::of_text(prompt::SYSTEM), bytes: 0, pictures: 0 };
        for note in head {
            load.tokens += tokens::of_text(&note.text) + tokens::PER_MESSAGE;
        }
        for turn in conversation.turns() {
            load.tokens += said(turn);
            for ended in turn.calls.iter().filter_map(|call| call.ended.as_ref()) {
                load.tokens += tokens::of_parts(&ended.parts) + tokens::PER_MESSAGE;
                load.bytes += bytes(&ended.parts);
                load.pictures += pictures(&ended.parts);
            }
        }
        load
    }

    fn without(&mut self, parts: &[ModelPart]) {
        self.tokens = self.tokens.saturating_sub(tokens::of_parts(parts)) + STUB_TOKENS;
        self.bytes -= bytes(parts);
        self.pictures -= pictures(parts);
    }
}

/// Tokens of an answer and of the notes after it.
fn said(turn: &ConversationTurn) -> u64 {
    let calls: u64 = turn
        .calls
        .iter()
        .map(|call| {
            tokens::of_text(&call.call.arguments) + tokens::of_text(&call.call.name) + tokens::PER_MESSAGE
        })
        .sum();
    let after: u64 = turn.after.iter().map(|note| tokens::of_text(&note.text) + tokens::PER_MESSAGE).sum();
    tokens::of_text(&turn.text) + tokens::PER_MESSAGE + calls + after
}

/// Tokens that leaving out a turn saves once its results are stubs.
fn remaining(turn: &ConversationTurn) -> u64 {
    said(turn) + STUB_TOKENS * turn.calls.len() as u64
}

fn bytes(parts: &[ModelPart]) -> usize {
    parts
        .iter()
        .map(|part| match part {
            ModelPart::Text { text } => text.len(),
            ModelPart::Png { base64 } => base64.len(),
        })
        .sum()
}

fn pictures(parts: &[ModelPart]) -> usize {
    parts.iter().filter(|part| matches!(part, ModelPart::Png { .. })).count()
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
