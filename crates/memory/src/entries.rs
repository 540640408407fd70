//! The texts of a journal entry, each a source of its own.
//!
//! The numbers of the parts are part of citations that people keep: they never change for an entry that is stored.

use std::borrow::Cow;

use sandyard_protocol::{JournalEntry, ModelPart, PlanItem, PlanState};

use crate::source::SourceOrigin;

/// One text of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryText<'e> {
    /// Which text of the entry, counting from 0.
    pub part: u32,
    /// Where it came from.
    pub origin: SourceOrigin,
    /// What it is: the tool, the speaker, `task`, `answer`, `plan`.
    pub title: Cow<'e, str>,
    /// The text, byte for byte as the entry has it.
    pub text: Cow<'e, str>,
}

/// The texts of an entry, in order. Pictures and what only the loop needs have none.
pub fn entry_texts(entry: &JournalEntry) -> Vec<EntryText<'_>> {
    match entry {
        JournalEntry::Task { text } => one(SourceOrigin::Person, "task", text),
        JournalEntry::Said { text, .. } => one(SourceOrigin::Person, "said", text),
        JournalEntry::Answer { text, calls, .. } => {
            let calls = (1..).zip(calls).map(|(part, call)| {
                text_of(part, SourceOrigin::Call, call.name.as_str().into(), &call.arguments)
            });
            [text_of(0, SourceOrigin::Model, "answer".into(), text)].into_iter().chain(calls).collect()
        }
        JournalEntry::StepEnded { parts, .. } => (0..)
            .zip(parts)
            .filter_map(|(number, part)| match part {
                ModelPart::Text { text } => {
                    Some(text_of(number, SourceOrigin::Result, "result".into(), text))
                }
                ModelPart::Png { .. } => None,
            })
            .collect(),
        JournalEntry::Plan { items } => vec![EntryText {
            part: 0,
            origin: SourceOrigin::Model,
            title: "plan".into(),
            text: plan_text(items).into(),
        }],
        JournalEntry::Asked { question, .. } => one(SourceOrigin::Model, "question", question),
        JournalEntry::Nudge { text } => one(SourceOrigin::Note, "note", text),
        JournalEntry::Finished { summary } => one(SourceOrigin::Model, "summary", summary),
        JournalEntry::GaveUp { reason } => one(SourceOrigin::Note, "gave up", reason),
        JournalEntry::StepBegan { .. } | JournalEntry::Packed { .. } => Vec::new(),
    }
}

fn one<'e>(origin: SourceOrigin, title: &'static str, text: &'e str) -> Vec<EntryText<'e>> {
    vec![text_of(0, origin, title.into(), text)]
}

fn text_of<'e>(part: u32, origin: SourceOrigin, title: Cow<'e, str>, text: &'e str) -> EntryText<'e> {
    EntryText { part, origin, title, text: Cow::Borrowed(text) }
}

/// A plan, line by line.
pub fn plan_text(items: &[PlanItem]) -> String {
    let mark = |state: PlanState| match state {
        PlanState::Open => " ",
        PlanState::Doing => ">",
        PlanState::Done => "x",
    };
    let lines: Vec<String> =
        items.iter().map(|item| format!("[{}] {}", mark(item.state), item.text)).collect();
    lines.join("\n")
}
