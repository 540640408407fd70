//! Summaries of a journal as a tree: entries → sections → phases → the job. Each node names the entries that it stands for.
//!
//! The tree grows with the journal: a node is made when its children are complete, and never changes. A model may write the text of a node;
//! without one, the most telling lines of the children are kept. Rules and words of people are no part of the tree, because they are never
//! summarised away (see `pack`).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::Serialize;

use crate::terms::terms;

/// Children of a node.
const CHILDREN: usize = 8;
/// Longest line that stands for an entry.
const LINE_BYTES: usize = 140;
/// Lines that a summary without a model keeps.
const KEPT_LINES: usize = 4;
/// Lines of an entry that are looked at for its headline.
const LOOKED_AT_LINES: usize = 4000;
/// Words that make a line worth more than the others: what went wrong is asked for later.
const FAILURE_WORDS: [&str; 10] =
    ["error", "failed", "failure", "panic", "exception", "traceback", "fatal", "denied", "refused", "cannot"];

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SummaryNode {
    /// 0 for an entry, 1 for a section, 2 for a phase, and so on.
    pub level: usize,
    /// Numbers of the entries that it stands for.
    pub covers: RangeInclusive<u64>,
    /// What happened in them.
    pub text: String,
}

/// Writes the text of a node.
pub trait Summariser {
    /// Returns a text for these children, or `None` to have the most telling lines kept.
    fn summarise(&mut self, children: &[SummaryNode]) -> Option<String>;
}

/// Summarises without a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtractiveSummariser;

impl Summariser for ExtractiveSummariser {
    fn summarise(&mut self, _: &[SummaryNode]) -> Option<String> {
        None
    }
}

/// Summaries of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SummaryTree {
    /// Nodes of each level, oldest first.
    levels: Vec<Vec<SummaryNode>>,
}

impl SummaryTree {
    /// Adds an entry. Numbers must rise.
    pub fn push(&mut self, number: u64, title: &str, text: &str, summariser: &mut dyn Summariser) {
        let line = headline(text);
        let text = if line.is_empty() { title.to_owned() } else { format!("{title}: {line}") };
        self.add(SummaryNode { level: 0, covers: number..=number, text }, summariser);
    }

    fn add(&mut self, node: SummaryNode, summariser: &mut dyn Summariser) {
        let mut node = Some(node);
        while let Some(next) = node.take() {
            let level = next.level;
            if level == self.levels.len() {
                self.levels.push(Vec::new());
            }
            let nodes = &mut self.levels[level];
            nodes.push(next);
            if nodes.len().is_multiple_of(CHILDREN) {
                let children = &nodes[nodes.len() - CHILDREN..];
                let text = summariser.summarise(children).unwrap_or_else(|| telling_lines(children));
                let covers = *children[0].covers.start()..=*children[CHILDREN - 1].covers.end();
                node = Some(SummaryNode { level: level + 1, covers, text });
            }
        }
    }

    /// The fewest nodes that stand for all entries up to a number, oldest first.
    pub fn cover(&self, until: u64) -> Vec<&SummaryNode> {
        let mut nodes: Vec<&SummaryNode> = Vec::new();
        for level in self.levels.iter().rev() {
            let covered = nodes.last().map_or(0, |node| *node.covers.end());
            let next =
                level.iter().filter(|node| *node.covers.start() > covered && *node.covers.end() <= until);
            nodes.extend(next);
        }
        nodes
    }
}

/// The line of a text that tells most: the first one that speaks of a failure, or the first one with words.
pub fn headline(text: &str) -> String {
    let mut first = None;
    let mut telling = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LOOKED_AT_LINES) {
        first = first.or(Some(line));
        if speaks_of_failure(line) {
            telling = Some(line);
            break;
        }
    }
    cut(telling.or(first).unwrap_or(""))
}

fn cut(line: &str) -> String {
    let end = line.floor_char_boundary(LINE_BYTES);
    format!("{}{}", &line[..end], if end < line.len() { "…" } else { "" })
}

fn speaks_of_failure(line: &str) -> bool {
    let lower = line.get(..line.floor_char_boundary(1000)).unwrap_or("").to_ascii_lowercase();
    FAILURE_WORDS.iter().any(|word| lower.contains(word))
}

/// The lines of the children whose words are rare among them, and those that speak of failures, in their order.
fn telling_lines(children: &[SummaryNode]) -> String {
    let lines: Vec<&str> = children.iter().flat_map(|child| child.text.lines()).collect();
    let words: Vec<Vec<String>> = lines.iter().map(|line| terms(line)).collect();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for word in words.iter().flatten() {
        *count.entry(word).or_default() += 1;
    }
    let rarity = |word: &String| 1.0 / count.get(word.as_str()).copied().unwrap_or(1) as f64;
    let worth = |place: usize| {
        let rare: f64 = words[place].iter().map(rarity).sum();
        rare + if speaks_of_failure(lines[place]) { 10.0 } else { 0.0 }
    };
    let mut places: Vec<usize> = (0..lines.len()).collect();
    places.sort_by(|&one, &other| worth(other).total_cmp(&worth(one)).then(one.cmp(&other)));
    places.truncate(KEPT_LINES);
    places.sort_unstable();
    places.into_iter().map(|place| lines[place]).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_headline_of_output_is_its_failure() {
        assert_eq!(
            headline("\n  collecting\nTypeError: x is not an Error\nmore"),
            "TypeError: x is not an Error"
        );
        assert_eq!(headline("\n\nfirst words\nsecond"), "first words");
        assert_eq!(headline(""), "");
    }

    #[test]
    fn a_section_keeps_what_went_wrong() {
        let mut tree = SummaryTree::default();
        for number in 1..=64 {
            let text = if number == 13 { "the database refused the connection" } else { "ok" };
            tree.push(number, "shell", text, &mut ExtractiveSummariser);
        }
        let nodes = tree.cover(64);
        assert_eq!((nodes.len(), nodes[0].level, nodes[0].covers.clone()), (1, 2, 1..=64));
        assert!(nodes[0].text.contains("refused the connection"), "{}", nodes[0].text);
    }

    proptest! {
        #[test]
        fn a_cover_stands_for_each_entry_once(gaps in prop::collection::vec(1u64..4, 0..200), until in 0u64..500) {
            let mut tree = SummaryTree::default();
            let mut number = 0;
            let mut expected = Vec::new();
            for gap in gaps {
                number += gap;
                tree.push(number, "entry", "text", &mut ExtractiveSummariser);
                expected.push(number);
            }
            expected.retain(|number| *number <= until);
            let covered: Vec<u64> = expected.iter().copied().filter(|number| {
                tree.cover(until).iter().filter(|node| node.covers.contains(number)).count() == 1
            }).collect();
            prop_assert_eq!(covered, expected);
        }
    }
}
