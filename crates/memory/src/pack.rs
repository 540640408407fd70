//! Packing: what the model reads of its journal, within a budget of tokens.
//!
//! The task, the words of people and the plan are always read whole. The newest entries are whole. Older results are masked: a line says what
//! they were and where they are found. When even that is too much, summaries stand for the oldest entries. Passages that recall found for the
//! present step come last, so everything before them stays the same from call to call and the caches of providers hit. For the same reason the
//! borders between whole, masked and summarised move rarely and far.
//!
//! Everything here is a pure function of its arguments, and each part says why it is there.

use std::ops::RangeInclusive;

use sandyard_protocol::ContextReason;
use serde::{Deserialize, Serialize};

use crate::summary::{SummaryNode, SummaryTree};
use crate::tokens::estimate_tokens;

/// What an entry is to the packer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalItemKind {
    /// The task, a standing rule, or words of a person: always whole.
    Rule,
    /// A plan. Only the newest is read.
    Plan,
    /// An answer of the model, with its calls.
    Answer,
    /// The result of a call.
    Result,
    /// A note of the loop.
    Note,
}

/// An entry of the journal, in the order of the journal.
#[derive(Debug, Clone, Copy)]
pub struct JournalItem<'j> {
    /// Number of the entry.
    pub number: u64,
    /// What it is.
    pub kind: JournalItemKind,
    /// The tool or the speaker.
    pub title: &'j str,
    /// The line that tells most of it (see `summary::headline`), found once when the entry was written.
    pub headline: &'j str,
    /// Tokens of its text.
    pub tokens: u64,
}

/// A passage that recall found for the present step.
#[derive(Debug, Clone, Copy)]
pub struct RecalledText<'r> {
    /// Entry from which it comes.
    pub number: u64,
    /// The passage.
    pub text: &'r str,
    /// Tokens of the passage.
    pub tokens: u64,
}

/// How a budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackPolicy {
    /// Tokens for everything.
    pub budget_tokens: u64,
    /// Packing frees room when more than this share is used.
    pub full_percent: u64,
    /// Packing then frees room until no more than this share is used.
    pub packed_percent: u64,
    /// The newest results, which stay whole while there is room.
    pub whole_results: usize,
    /// Results are masked so many at a time, because each time costs the provider's cache.
    pub mask_step: usize,
    /// A result that is smaller is never masked: its mask would be as large.
    pub small_tokens: u64,
    /// Share for recalled passages.
    pub recall_percent: u64,
}

impl PackPolicy {
    /// The policy for a budget.
    pub fn new(budget_tokens: u64) -> Self {
        Self {
            budget_tokens,
            full_percent: 85,
            packed_percent: 55,
            whole_results: 10,
            mask_step: 8,
            small_tokens: 120,
            recall_percent: 10,
        }
    }
}

/// The borders of the packing before. The first packing has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackBorders {
    /// Results up to this entry are masked.
    pub masked_until: u64,
    /// Summaries stand for entries up to this one.
    pub summarised_until: u64,
}

/// A part of what the model reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PackedPart {
    /// Entries that it stands for.
    pub entries: RangeInclusive<u64>,
    /// Why it is there.
    pub reason: ContextReason,
    /// The text, if it is not that of the entry itself.
    pub replaced_by: Option<String>,
    /// Tokens of what is read.
    pub tokens: u64,
}

/// What the model reads, with the log of why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Packing {
    /// In the order in which the model reads them.
    pub parts: Vec<PackedPart>,
    /// Tokens of all parts.
    pub tokens: u64,
    /// Borders, for the next packing.
    pub borders: PackBorders,
    /// True if the borders moved, which costs the provider's cache once.
    pub moved: bool,
}

/// Packs a journal. `recalled` is best first.
pub fn pack(
    journal: &[JournalItem<'_>],
    summaries: &SummaryTree,
    recalled: &[RecalledText<'_>],
    before: PackBorders,
    policy: &PackPolicy,
) -> Packing {
    let plan =
        journal.iter().rev().find(|entry| entry.kind == JournalItemKind::Plan).map(|entry| entry.number);
    let packer = Packer { journal, summaries, plan, policy };
    let borders = packer.borders(before);
    let mut parts = packer.parts(borders);
    let used: u64 = parts.iter().map(|part| part.tokens).sum();
    parts.extend(packer.recalled(recalled, &parts, used));
    let tokens = parts.iter().map(|part| part.tokens).sum();
    Packing { parts, tokens, borders, moved: borders != before }
}

/// The line that stands for a masked entry.
pub fn mask_line(entry: &JournalItem<'_>) -> String {
    let JournalItem { number, title, headline, tokens, .. } = entry;
    format!("[{title}, about {tokens} tokens; `recall` with {{\"number\": {number}}} shows it] {headline}")
}

struct Packer<'p, 'j> {
    journal: &'p [JournalItem<'j>],
    summaries: &'p SummaryTree,
    plan: Option<u64>,
    policy: &'p PackPolicy,
}

impl Packer<'_, '_> {
    /// Moves the borders if too much is whole: first by number of results, then by tokens.
    fn borders(&self, before: PackBorders) -> PackBorders {
        let mut borders = before;
        let PackPolicy { budget_tokens, full_percent, packed_percent, whole_results, mask_step, .. } =
            *self.policy;
        let is_whole = |entry: &&JournalItem<'_>| {
            entry.kind == JournalItemKind::Result && entry.number > before.masked_until
        };
        let results: Vec<u64> = self.journal.iter().filter(is_whole).map(|entry| entry.number).collect();
        if results.len() >= whole_results + mask_step.max(1) {
            borders.masked_until = results[results.len() - whole_results - 1];
        }
        let costs = EntryCosts::of(self, borders);
        if costs.tokens(self, borders) <= budget_tokens * full_percent / 100 {
            return borders;
        }
        let fits = |borders: PackBorders| costs.tokens(self, borders) <= budget_tokens * packed_percent / 100;
        // All results but the newest entry may be masked before anything is summarised.
        let numbers: Vec<u64> = self.journal.iter().map(|entry| entry.number).collect();
        let (_, older) = numbers.split_last().unwrap_or((&0, &[]));
        let masked = |until: u64| PackBorders { masked_until: until, ..borders };
        borders = masked(first_that_fits(older, borders.masked_until, |until| fits(masked(until))));
        let old = &numbers[..numbers.len().saturating_sub(whole_results.max(1))];
        let summarised = |until: u64| PackBorders { summarised_until: until, ..borders };
        summarised(first_that_fits(old, borders.summarised_until, |until| fits(summarised(until))))
    }

    /// Everything but recalled passages.
    fn parts(&self, borders: PackBorders) -> Vec<PackedPart> {
        let mut parts = Vec::new();
        let mut summaries = self.summaries.cover(borders.summarised_until).into_iter().peekable();
        for entry in self.journal {
            while let Some(node) = summaries.next_if(|node| *node.covers.start() <= entry.number) {
                let text =
                    format!("[entries {} to {}]\n{}", node.covers.start(), node.covers.end(), node.text);
                parts.push(replaced(node.covers.clone(), ContextReason::Summary, text));
            }
            parts.extend(self.part(entry, borders));
        }
        parts
    }

    /// How one entry is read; `None` if a summary or a newer plan stands for it.
    fn part(&self, entry: &JournalItem<'_>, borders: PackBorders) -> Option<PackedPart> {
        let entries = entry.number..=entry.number;
        let whole =
            |reason| PackedPart { entries: entries.clone(), reason, replaced_by: None, tokens: entry.tokens };
        match entry.kind {
            JournalItemKind::Rule => return Some(whole(ContextReason::Rule)),
            JournalItemKind::Plan => {
                return (Some(entry.number) == self.plan).then(|| whole(ContextReason::Plan));
            }
            JournalItemKind::Answer | JournalItemKind::Result | JournalItemKind::Note => {}
        }
        if entry.number <= borders.summarised_until {
            return None;
        }
        if entry.number > borders.masked_until {
            return Some(whole(ContextReason::New));
        }
        if entry.kind != JournalItemKind::Result || entry.tokens <= self.policy.small_tokens {
            return Some(whole(ContextReason::Small));
        }
        Some(replaced(entries.clone(), ContextReason::Masked, mask_line(entry)))
    }

    /// Passages that fit and that the model does not read anyway.
    fn recalled(&self, recalled: &[RecalledText<'_>], parts: &[PackedPart], used: u64) -> Vec<PackedPart> {
        let room = self.policy.budget_tokens * self.policy.recall_percent / 100;
        let mut room = room.min(self.policy.budget_tokens.saturating_sub(used));
        let is_whole = |number: u64| {
            parts.iter().any(|part| part.replaced_by.is_none() && part.entries.contains(&number))
        };
        let mut found = Vec::new();
        for passage in recalled.iter().filter(|passage| !is_whole(passage.number)) {
            if passage.tokens <= room {
                room -= passage.tokens;
                let text = Some(passage.text.to_owned());
                let entries = passage.number..=passage.number;
                found.push(PackedPart {
                    entries,
                    reason: ContextReason::Recalled,
                    replaced_by: text,
                    tokens: passage.tokens,
                });
            }
        }
        found
    }
}

/// The lowest border from `present` on that fits, or the highest possible one. Higher borders take fewer tokens.
fn first_that_fits(numbers: &[u64], present: u64, fits: impl Fn(u64) -> bool) -> u64 {
    if fits(present) {
        return present;
    }
    let later = &numbers[numbers.partition_point(|&number| number <= present)..];
    let place = later.partition_point(|&number| !fits(number));
    later.get(place).or(later.last()).copied().unwrap_or(present)
}

/// What each entry costs whole and masked, computed once for many borders.
struct EntryCosts(Vec<(u64, u64)>);

impl EntryCosts {
    fn of(packer: &Packer<'_, '_>, borders: PackBorders) -> Self {
        let everything = PackBorders { masked_until: u64::MAX, summarised_until: borders.summarised_until };
        let whole = PackBorders { masked_until: 0, ..everything };
        let cost = |entry, borders| packer.part(entry, borders).map_or(0, |part| part.tokens);
        Self(packer.journal.iter().map(|entry| (cost(entry, whole), cost(entry, everything))).collect())
    }

    fn tokens(&self, packer: &Packer<'_, '_>, borders: PackBorders) -> u64 {
        let entries = packer.journal.iter().zip(&self.0).map(|(entry, &(whole, masked))| {
            let summarised = entry.number <= borders.summarised_until
                && !matches!(entry.kind, JournalItemKind::Rule | JournalItemKind::Plan);
            match summarised {
                true => 0,
                false if entry.number <= borders.masked_until => masked,
                false => whole,
            }
        });
        let nodes = packer.summaries.cover(borders.summarised_until);
        entries.sum::<u64>() + nodes.into_iter().map(|node| summary_part(node).tokens).sum::<u64>()
    }
}

fn summary_part(node: &SummaryNode) -> PackedPart {
    let text = format!("[entries {} to {}]\n{}", node.covers.start(), node.covers.end(), node.text);
    replaced(node.covers.clone(), ContextReason::Summary, text)
}

fn replaced(entries: RangeInclusive<u64>, reason: ContextReason, text: String) -> PackedPart {
    PackedPart { entries, reason, tokens: estimate_tokens(&text), replaced_by: Some(text) }
}

#[cfg(test)]
#[path = "pack_tests.rs"]
mod tests;
