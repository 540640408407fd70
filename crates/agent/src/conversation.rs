//! The conversation, built from the journal entry by entry: in the same way for a new entry and for one that is read after a crash.
//! It does no I/O, and it alone decides the next action (`due`).
//!
//! Only entries that the model still reads are kept, so the size is bounded by the model's window and not by the job's length.

use std::collections::{BTreeSet, VecDeque};

use sandyard_protocol::{
    JournalEntry, JournalRow, ModelPart, PlanItem, StopReason, ToolCall, ToolResult, WhyAsked,
};

use crate::prompt;
use crate::shown;
use crate::stuck::{LoopProgress, Stuck};

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
    plan: Vec<PlanItem>,
    asked: Option<WhyAsked>,
    end: Option<Due>,
    progress: LoopProgress,
}

/// A text of a person or of the loop.
#[derive(Debug, Clone)]
pub(crate) struct ConversationNote {
    /// True if a person wrote it: such notes are never left out.
    pub(crate) by_person: bool,
    pub(crate) text: String,
}

/// Turns that the model no longer reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeftOut {
    pub(crate) turns: u64,
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
            JournalEntry::Task { text } => self.note(prompt::task(&text), true),
            JournalEntry::Said { text, by, .. } => {
                self.asked = None;
                self.progress.heard();
                self.note(prompt::said(&text, by), true);
            }
            JournalEntry::Nudge { text } => {
                self.progress.nudged();
                self.note(text, false);
            }
            JournalEntry::Answer { text, calls, stop, .. } => {
                self.progress.answered(&calls);
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
        let Some(open) = open else { return };
        let call = open.call.clone();
        let parts = shown::parts(parts, number);
        let result = shown::fingerprint(&parts);
        open.ended = Some(CallResult { number, parts, failed, packed: false });
        self.progress.ended(&call, result, failed);
    }

    fn open_call(&mut self, is_it: impl Fn(&TurnCall) -> bool) -> Option<&mut TurnCall> {
        self.turns.back_mut()?.calls.iter_mut().find(|call| is_it(call))
    }

    fn note(&mut self, text: String, by_person: bool) {
        let notes = self.turns.back_mut().map_or(&mut self.head, |turn| &mut turn.after);
        notes.push(ConversationNote { by_person, text });
    }

    /// Replaces named results by stubs, and leaves out the oldest turns whose answers are named.
    fn pack(&mut self, numbers: &[u64]) {
        let numbers: BTreeSet<u64> = numbers.iter().copied().collect();
        // The last turn always stays: its calls may be open, and `due` decides by them.
        while self.turns.len() > 1 && self.turns.front().is_some_and(|turn| numbers.contains(&turn.number)) {
            let Some(turn) = self.turns.pop_front() else { break };
            // Words of people survive the turn that they followed.
            self.head.extend(turn.after.into_iter().filter(|note| note.by_person));
            self.left_out =
                LeftOut { turns: self.left_out.turns + 1, last: turn.number, plan: self.plan.clone() };
        }
        for ended in
            self.turns.iter_mut().flat_map(|turn| &mut turn.calls).filter_map(|call| call.ended.as_mut())
        {
            if numbers.contains(&ended.number) && !ended.packed {
                ended.parts = shown::stub(&ended.parts, ended.number);
                ended.packed = true;
            }
        }
    }

    pub(crate) fn head(&self) -> (&[ConversationNote], &LeftOut) {
        (&self.head, &self.left_out)
    }
}

impl ConversationTurn {
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
