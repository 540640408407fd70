//! The conversation, built from the journal entry by entry: in the same way for a new entry and for one that is read after a crash.
//! It does no I/O, and it alone decides the next action (`due`).
//!
//! Only entries that the model still reads are kept, so the size is bounded by the model's window and not by the job's length.

use std::collections::{BTreeSet, VecDeque};

use sandyard_memory::pack::{JournalItem, JournalItemKind, PackBorders, mask_line};
use sandyard_memory::plan_text;
use sandyard_memory::summary::{ExtractiveSummariser, SummaryTree};
use sandyard_protocol::{
    JournalEntry, JournalRow, ModelPart, PlanItem, StopReason, ToolCall, ToolResult, WhyAsked,
};

use crate::prompt;
use crate::shown;
use crate::stuck::{LoopProgress, Stuck};
use crate::tokens;

/// The next action of the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Due {
    /// Ask the model for its next answer.
    Answer,
    /// Run the open calls of the last answer, or report them as interrupted.
    Steps,
    /// Wait for the reply of a person who was asked.
    Reply,
    /// Nothing: the task is done.
    Finished,
    /// Nothing: the task is given up.
    GivenUp,
}

/// Bytes of a question for the present step that come from one text.
const QUESTION_LINE_BYTES: usize = 400;

/// All that the loop knows about its task.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// Number of the last entry.
    last: u64,
    /// Incarnation of the machine in which the last entry of the loop was written.
    machine: u32,
    /// Notes before the first answer, and notes of people from turns that are left out.
    head: Vec<ConversationNote>,
    turns: VecDeque<ConversationTurn>,
    left_out: LeftOut,
    /// What stands for entries that are left out; it grows with every entry.
    summaries: SummaryTree,
    plan: Vec<PlanItem>,
    asked: Option<WhyAsked>,
    end: Option<Due>,
    progress: LoopProgress,
}

/// A text of a person or of the loop.
#[derive(Debug, Clone)]
pub(crate) struct ConversationNote {
    pub(crate) number: u64,
    /// True if a person wrote it: such notes are never left out.
    pub(crate) by_person: bool,
    pub(crate) text: String,
}

/// Turns that the model no longer reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeftOut {
    pub(crate) turns: u64,
    /// Number of the last entry of the last of them.
    pub(crate) last: u64,
    /// The plan at the time of the last of them.
    pub(crate) plan: Vec<PlanItem>,
}

/// An answer, its calls, and the notes after them.
#[derive(Debug)]
pub(crate) struct ConversationTurn {
    pub(crate) number: u64,
    pub(crate) text: String,
    pub(crate) stop: StopReason,
    pub(crate) calls: Vec<TurnCall>,
    pub(crate) after: Vec<ConversationNote>,
}

/// A tool call and its progress.
#[derive(Debug)]
pub(crate) struct TurnCall {
    pub(crate) call: ToolCall,
    pub(crate) began: Option<CallStart>,
    /// True if its question was put to a person.
    pub(crate) asked: bool,
    pub(crate) ended: Option<CallResult>,
}

/// The start of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallStart {
    /// Journal number of the step. Processes in the machine carry it.
    pub(crate) number: u64,
    /// The machine in which the call started.
    pub(crate) incarnation: u32,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct CallResult {
    pub(crate) number: u64,
    pub(crate) parts: Vec<ModelPart>,
    pub(crate) failed: bool,
    /// The line that tells most of it.
    pub(crate) headline: String,
    /// True if a line stands for it.
    pub(crate) packed: bool,
}

impl Conversation {
    /// Journal number of the last entry.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Incarnation of the machine in which the last entry of the loop was written.
    pub(crate) fn machine(&self) -> u32 {
        self.machine
    }

    /// How the model repeats itself, if it does.
    pub(crate) fn stuck(&self) -> Option<Stuck> {
        self.progress.stuck()
    }

    /// Up to which entries the packings so far have reached.
    pub(crate) fn borders(&self) -> PackBorders {
        let results = self.turns.iter().flat_map(|turn| &turn.calls).filter_map(|call| call.ended.as_ref());
        let masked = results.filter(|ended| ended.packed).map(|ended| ended.number).max();
        let masked_until = masked.unwrap_or(0).max(self.left_out.last);
        PackBorders { masked_until, summarised_until: self.left_out.last }
    }

    /// What stands for entries that are left out.
    pub(crate) fn summaries(&self) -> &SummaryTree {
        &self.summaries
    }

    /// What the present step is about: the words of the last answer, and the lines that tell most of its results.
    pub(crate) fn present_question(&self) -> String {
        let Some(turn) = self.turns.back() else { return String::new() };
        let results = turn.calls.iter().filter_map(|call| call.ended.as_ref());
        let lines = std::iter::once(turn.text.as_str()).chain(results.map(|ended| ended.headline.as_str()));
        let notes = turn.after.iter().map(|note| note.text.as_str());
        let mut question = String::new();
        for line in lines.chain(notes) {
            question.push_str(&line[..line.floor_char_boundary(QUESTION_LINE_BYTES)]);
            question.push('\n');
        }
        question.trim().to_owned()
    }

    /// What happened so far, for people: their words, the plan, and summaries of everything.
    pub(crate) fn digest(&self) -> String {
        let said = self.turns.iter().flat_map(|turn| &turn.after).filter(|note| note.by_person);
        let mut text = String::new();
        for note in self.head.iter().filter(|note| note.by_person).chain(said) {
            text.push_str(&format!("[{}] {}\n\n", note.number, note.text.trim()));
        }
        if !self.plan.is_empty() {
            text.push_str(&format!("The plan:\n{}\n\n", plan_text(&self.plan)));
        }
        for node in self.summaries.cover(self.last) {
            text.push_str(&format!("[{} to {}]\n{}\n", node.covers.start(), node.covers.end(), node.text));
        }
        text
    }

    /// Results of earlier turns that are still whole, but those of the newest turns.
    pub(crate) fn maskable(&self, newest: usize) -> Vec<u64> {
        let old = self.turns.len().saturating_sub(newest);
        let calls = self.turns.iter().take(old).flat_map(|turn| &turn.calls);
        let whole = calls.filter_map(|call| call.ended.as_ref()).filter(|ended| !ended.packed);
        whole.map(|ended| ended.number).collect()
    }

    pub(crate) fn turns(&self) -> &VecDeque<ConversationTurn> {
        &self.turns
    }

    /// The calls of the last answer.
    pub(crate) fn calls(&self) -> &[TurnCall] {
        self.turns.back().map_or(&[], |turn| &turn.calls)
    }

    /// Returns the next action of the loop.
    pub(crate) fn due(&self) -> Due {
        if let Some(end) = &self.end {
            return end.clone();
        }
        if self.asked.is_some() {
            return Due::Reply;
        }
        match self.calls().iter().all(|call| call.ended.is_some()) {
            true => Due::Answer,
            false => Due::Steps,
        }
    }

    /// Applies the next entry.
    pub(crate) fn apply(&mut self, row: JournalRow) {
        let JournalRow { number, incarnation, entry, .. } = row;
        self.last = number;
        // The host writes these, possibly while no machine runs. They say nothing about the machine of the loop.
        if !matches!(entry, JournalEntry::Task { .. } | JournalEntry::Said { .. }) {
            self.machine = incarnation;
        }
        match entry {
            JournalEntry::Task { text } => self.note(number, prompt::task(&text), true),
            JournalEntry::Said { text, by, .. } => {
                self.asked = None;
                self.progress.heard();
                self.note(number, prompt::said(&text, by), true);
            }
            JournalEntry::Nudge { text } => {
                self.progress.nudged();
                self.note(number, text, false);
            }
            JournalEntry::Answer { text, calls, stop, .. } => {
                self.progress.answered(&calls);
                let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
                let title = format!("you, with {}", names.join(", "));
                self.summaries.push(number, &title, &text, &mut ExtractiveSummariser);
                let calls = calls
                    .into_iter()
                    .map(|call| TurnCall { call, began: None, asked: false, ended: None })
                    .collect();
                self.turns.push_back(ConversationTurn { number, text, stop, calls, after: Vec::new() });
            }
            JournalEntry::StepBegan { call, .. } => {
                let open = self.open_call(|open| open.began.is_none() && open.call.id == call);
                if let Some(open) = open {
                    open.began = Some(CallStart { number, incarnation });
                }
            }
            JournalEntry::StepEnded { call, parts, failed, .. } => {
                self.step_ended(number, &call, parts, failed)
            }
            JournalEntry::Plan { items } => self.plan = items,
            JournalEntry::Asked { why, .. } => {
                self.asked = Some(why);
                if let Some(open) = self.open_call(|open| open.began.is_some() && open.ended.is_none()) {
                    open.asked = true;
                }
            }
            JournalEntry::Packed { numbers } => self.pack(&numbers),
            JournalEntry::Finished { .. } => self.end = Some(Due::Finished),
            JournalEntry::GaveUp { .. } => self.end = Some(Due::GivenUp),
        }
    }

    fn step_ended(&mut self, number: u64, call: &str, parts: Vec<ModelPart>, failed: bool) {
        let open =
            self.open_call(|open| open.began.is_some() && open.ended.is_none() && open.call.id == call);
        let Some(call) = open.map(|open| open.call.clone()) else { return };
        let parts = shown::parts(parts, number);
        let (result, headline) = (shown::fingerprint(&parts), shown::headline(&parts));
        self.summaries.push(number, &call.name, &headline, &mut ExtractiveSummariser);
        let open =
            self.open_call(|open| open.began.is_some() && open.ended.is_none() && open.call.id == call.id);
        if let Some(open) = open {
            open.ended = Some(CallResult { number, parts, failed, headline, packed: false });
        }
        self.progress.ended(&call, result, failed);
    }

    fn open_call(&mut self, is_it: impl Fn(&TurnCall) -> bool) -> Option<&mut TurnCall> {
        self.turns.back_mut()?.calls.iter_mut().find(|call| is_it(call))
    }

    fn note(&mut self, number: u64, text: String, by_person: bool) {
        let notes = self.turns.back_mut().map_or(&mut self.head, |turn| &mut turn.after);
        notes.push(ConversationNote { number, by_person, text });
    }

    /// Replaces named results by a line, and leaves out the oldest turns whose answers are named.
    fn pack(&mut self, numbers: &[u64]) {
        let numbers: BTreeSet<u64> = numbers.iter().copied().collect();
        // The last turn always stays: its calls may be open, and `due` decides by them.
        while self.turns.len() > 1 && self.turns.front().is_some_and(|turn| numbers.contains(&turn.number)) {
            let Some(turn) = self.turns.pop_front() else { break };
            let last = turn.last();
            // Words of people survive the turn that they followed.
            self.head.extend(turn.after.into_iter().filter(|note| note.by_person));
            self.left_out = LeftOut { turns: self.left_out.turns + 1, last, plan: self.plan.clone() };
        }
        for call in self.turns.iter_mut().flat_map(|turn| &mut turn.calls) {
            let Some(ended) = call.ended.as_mut().filter(|ended| !ended.packed) else { continue };
            if numbers.contains(&ended.number) {
                ended.parts = vec![ModelPart::Text { text: mask_line(&ended.item(&call.call.name)) }];
                ended.packed = true;
            }
        }
    }

    pub(crate) fn head(&self) -> (&[ConversationNote], &LeftOut) {
        (&self.head, &self.left_out)
    }
}

impl CallResult {
    /// The result as the packer sees it.
    pub(crate) fn item<'i>(&'i self, tool: &'i str) -> JournalItem<'i> {
        let (number, tokens) = (self.number, tokens::of_parts(&self.parts));
        JournalItem { number, kind: JournalItemKind::Result, title: tool, headline: &self.headline, tokens }
    }
}

impl ConversationTurn {
    /// Number of its last entry.
    pub(crate) fn last(&self) -> u64 {
        let ended = self.calls.iter().filter_map(|call| call.ended.as_ref()).map(|ended| ended.number);
        ended.chain(self.after.iter().map(|note| note.number)).fold(self.number, u64::max)
    }

    /// Results in the order of the calls.
    pub(crate) fn results(&self) -> Vec<ToolResult> {
        let result = |call: &TurnCall| {
            let (parts, failed) = call.ended.as_ref().map(|ended| (ended.parts.clone(), ended.failed))?;
            Some(ToolResult { call: call.call.id.clone(), parts, failed })
        };
        self.calls.iter().filter_map(result).collect()
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
