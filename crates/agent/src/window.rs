//! The model's window: the conversation as messages, and the choice of entries that a line or a summary stands for.
//!
//! The choice is that of `sandyard_memory::pack`: old results become lines, in steps, because every change of earlier messages
//! invalidates the provider's cache; when that is not enough, summaries stand for the oldest turns. The task, the words of people and the
//! newest turns always stay. A recording is compared answer by answer, so a replay keeps all turns. What was recalled for the present step
//! comes last and is gone with the next step, so everything before it stays the same.

use sandyard_memory::pack::{JournalItem, JournalItemKind, PackPolicy, pack};
use sandyard_protocol::{
    ContextPart, ContextReason, JournalPassage, ModelFacts, ModelMessage, ModelPart, ToolSpec, limits,
};

use crate::conversation::{CallResult, Conversation, ConversationNote, ConversationTurn, TurnCall};
use crate::prompt;
use crate::tokens::{self, Correction};

/// The newest turns, whose pictures stay.
const WHOLE_TURNS: usize = 6;
/// Pictures in one call; older ones show a screen that has changed since.
const PICTURES: usize = 12;
/// Pictures that stay when there are too many.
const PICTURES_KEPT: usize = 4;
/// Bytes of all parts together: half of what a call may have, for the rest of the call and for JSON.
const CALL_BYTES: usize = limits::MODEL_CALL_BYTES / 2;

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

    /// The conversation as messages, with what was recalled for the present step.
    pub(crate) fn messages(
        &self,
        conversation: &Conversation,
        recalled: &[RecalledWords],
    ) -> Vec<ModelMessage> {
        let mut messages = vec![self.head(conversation)];
        for turn in conversation.turns() {
            self.turn(turn, &mut messages);
        }
        if !recalled.is_empty() {
            let words = recalled.iter().map(|passage| passage.text.as_str());
            let texts = std::iter::once(prompt::RECALLED).chain(words);
            let parts = texts.map(|text| ModelPart::Text { text: text.to_owned() }).collect();
            messages.push(ModelMessage::User { parts });
        }
        messages
    }

    /// Tokens for what is recalled for one step.
    pub(crate) fn recall_room(&self) -> u64 {
        self.room * PackPolicy::new(self.room).recall_percent / 100
    }

    fn head(&self, conversation: &Conversation) -> ModelMessage {
        let (notes, left_out) = conversation.head();
        let mut parts = texts(notes);
        if left_out.turns > 0 {
            parts.push(ModelPart::Text { text: left_out_text(conversation) });
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
        let room = correction.undo(self.room).saturating_sub(standing(tools));
        let policy = PackPolicy::new(room);
        let packing =
            pack(&items(conversation), conversation.summaries(), &[], conversation.borders(), &policy);
        let borders = packing.borders;
        let is_masked = |ended: &CallResult| {
            ended.number <= borders.masked_until && tokens::of_parts(&ended.parts) > policy.small_tokens
        };
        let mut numbers: Vec<u64> =
            whole_results(conversation).filter(|ended| is_masked(ended)).map(|ended| ended.number).collect();
        self.pack_pictures(conversation, &mut numbers);
        if self.may_drop_turns {
            let turns = conversation.turns().iter().take(conversation.turns().len().saturating_sub(1));
            let gone = turns.take_while(|turn| turn.last() <= borders.summarised_until);
            numbers.extend(gone.map(|turn| turn.number));
        }
        numbers.sort_unstable();
        numbers
    }

    /// Adds the oldest results while there are too many pictures, or too many bytes for one call.
    fn pack_pictures(&self, conversation: &Conversation, numbers: &mut Vec<u64>) {
        let mut load = CallLoad::default();
        let is_left = |ended: &&CallResult| !numbers.contains(&ended.number);
        whole_results(conversation).filter(is_left).for_each(|ended| load.add(&ended.parts));
        let too_many = self.sees && load.pictures > PICTURES;
        if !too_many && load.bytes <= CALL_BYTES {
            return;
        }
        let turns = conversation.turns();
        let old = turns.len().saturating_sub(WHOLE_TURNS);
        let oldest = turns.iter().take(old).flat_map(|turn| &turn.calls).filter_map(ended);
        for ended in oldest.filter(|ended| !ended.packed) {
            let few = !self.sees || load.pictures <= PICTURES_KEPT;
            if few && load.bytes <= CALL_BYTES * 3 / 4 {
                return;
            }
            if !numbers.contains(&ended.number) {
                load.remove(&ended.parts);
                numbers.push(ended.number);
            }
        }
    }
}

/// A passage that was recalled for the present step, as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecalledWords {
    pub(crate) entry: u64,
    pub(crate) text: String,
}

impl RecalledWords {
    /// The passages that fit into a number of tokens, best first.
    pub(crate) fn within(
        room: u64,
        passages: &[JournalPassage],
        cited: impl Fn(&JournalPassage) -> String,
    ) -> Vec<Self> {
        let mut left = room;
        let words = passages.iter().map(|passage| Self { entry: passage.entry, text: cited(passage) });
        let fits = |words: &Self| {
            let rest = left.checked_sub(tokens::of_text(&words.text));
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        words.filter(fits).collect()
    }
}

/// What a call is made of, and why; empty if all of the journal is in it as it is.
pub(crate) fn context(conversation: &Conversation, recalled: &[RecalledWords]) -> Vec<ContextPart> {
    let (head, left_out) = conversation.head();
    let borders = conversation.borders();
    if borders.masked_until == 0 && recalled.is_empty() {
        return Vec::new();
    }
    let mut log = ContextLog::default();
    head.iter().for_each(|note| log.note(note));
    if left_out.turns > 0 {
        let nodes = conversation.summaries().cover(left_out.last);
        for node in nodes {
            let (first, last) = (*node.covers.start(), *node.covers.end());
            log.add(first, last, ContextReason::Summary, tokens::of_text(&node.text), Some(&node.text));
        }
    }
    for turn in conversation.turns() {
        log.add(turn.number, turn.number, ContextReason::New, answered(turn), None);
        for ended in turn.calls.iter().filter_map(ended) {
            log.result(ended, borders.masked_until);
        }
        turn.after.iter().for_each(|note| log.note(note));
    }
    for passage in recalled {
        let tokens = tokens::of_text(&passage.text);
        log.add(passage.entry, passage.entry, ContextReason::Recalled, tokens, Some(&passage.text));
    }
    log.0.truncate(limits::CONTEXT_PARTS);
    log.0
}

/// Collects the parts of a call; neighbours that are there for the same reason become one.
#[derive(Default)]
struct ContextLog(Vec<ContextPart>);

impl ContextLog {
    fn add(&mut self, first: u64, last: u64, reason: ContextReason, tokens: u64, text: Option<&str>) {
        match self.0.last_mut() {
            Some(part) if text.is_none() && part.replaced_by.is_none() && part.reason == reason => {
                part.last = part.last.max(last);
                part.tokens += tokens;
            }
            _ => {
                self.0.push(ContextPart { first, last, reason, tokens, replaced_by: text.map(str::to_owned) })
            }
        }
    }

    fn note(&mut self, note: &ConversationNote) {
        let reason = if note.by_person { ContextReason::Rule } else { ContextReason::New };
        self.add(note.number, note.number, reason, tokens::of_text(&note.text), None);
    }

    fn result(&mut self, ended: &CallResult, masked_until: u64) {
        let (number, tokens) = (ended.number, tokens::of_parts(&ended.parts));
        match ended.parts.as_slice() {
            [ModelPart::Text { text }] if ended.packed => {
                self.add(number, number, ContextReason::Masked, tokens, Some(text));
            }
            _ if number > masked_until => self.add(number, number, ContextReason::New, tokens, None),
            _ => self.add(number, number, ContextReason::Small, tokens, None),
        }
    }
}

/// The conversation as the packer sees it.
fn items(conversation: &Conversation) -> Vec<JournalItem<'_>> {
    let plain = |number, kind, tokens| JournalItem { number, kind, title: "", headline: "", tokens };
    let note = |note: &ConversationNote| {
        let kind = if note.by_person { JournalItemKind::Rule } else { JournalItemKind::Note };
        plain(note.number, kind, tokens::of_text(&note.text) + tokens::PER_MESSAGE)
    };
    let mut items: Vec<JournalItem<'_>> = conversation.head().0.iter().map(note).collect();
    for turn in conversation.turns() {
        items.push(plain(turn.number, JournalItemKind::Answer, answered(turn)));
        items.extend(turn.calls.iter().filter_map(|call| Some(ended(call)?.item(&call.call.name))));
        items.extend(turn.after.iter().map(note));
    }
    // Notes of people from turns that are left out are older than the turns, but newer than what stands for them.
    items.sort_by_key(|item| item.number);
    items
}

fn left_out_text(conversation: &Conversation) -> String {
    let (_, left_out) = conversation.head();
    prompt::left_out(left_out.turns, left_out.last, &left_out.plan, conversation.summaries())
}

fn ended(call: &TurnCall) -> Option<&CallResult> {
    call.ended.as_ref()
}

fn whole_results(conversation: &Conversation) -> impl Iterator<Item = &CallResult> {
    let calls = conversation.turns().iter().flat_map(|turn| &turn.calls);
    calls.filter_map(ended).filter(|ended| !ended.packed)
}

/// Estimated tokens of a whole call, before correction.
pub(crate) fn estimate(conversation: &Conversation, tools: &[ToolSpec]) -> u64 {
    standing(tools) + items(conversation).iter().map(|item| item.tokens).sum::<u64>()
}

/// Tokens of the instructions and the tools.
fn standing(tools: &[ToolSpec]) -> u64 {
    let tool =
        |tool: &ToolSpec| tokens::of_text(&tool.description) + tokens::of_text(&tool.parameters.to_string());
    tools.iter().map(tool).sum::<u64>() + tokens::of_text(prompt::SYSTEM)
}

fn texts(notes: &[ConversationNote]) -> Vec<ModelPart> {
    notes.iter().map(|note| ModelPart::Text { text: note.text.clone() }).collect()
}

/// Tokens of an answer with its calls.
fn answered(turn: &ConversationTurn) -> u64 {
    let calls = turn.calls.iter().map(|call| {
        tokens::of_text(&call.call.arguments) + tokens::of_text(&call.call.name) + tokens::PER_MESSAGE
    });
    tokens::of_text(&turn.text) + tokens::PER_MESSAGE + calls.sum::<u64>()
}

/// What a provider bounds beside tokens.
#[derive(Default)]
struct CallLoad {
    bytes: usize,
    pictures: usize,
}

impl CallLoad {
    fn add(&mut self, parts: &[ModelPart]) {
        self.bytes += bytes(parts);
        self.pictures += pictures(parts);
    }

    fn remove(&mut self, parts: &[ModelPart]) {
        self.bytes -= bytes(parts);
        self.pictures -= pictures(parts);
    }
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
