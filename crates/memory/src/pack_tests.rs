use proptest::prelude::*;

use super::*;
use crate::summary::ExtractiveSummariser;

/// A journal: the task, then answers with results.
struct Journal(Vec<(JournalItemKind, String)>);

impl Journal {
    fn of_steps(steps: usize, words: usize) -> Self {
        let mut entries = vec![(JournalItemKind::Rule, "Build a shop. Never log passwords.".to_owned())];
        for step in 0..steps {
            entries.push((JournalItemKind::Answer, format!("Now step {step}.")));
            entries.push((JournalItemKind::Result, format!("result {step} {}", "word ".repeat(words))));
        }
        Self(entries)
    }

    fn items(&self) -> Vec<JournalItem<'_>> {
        let mut items = Vec::new();
        for (number, (kind, text)) in (1..).zip(&self.0) {
            let headline = &text[..text.len().min(40)];
            items.push(JournalItem {
                number,
                kind: *kind,
                title: "shell",
                headline,
                tokens: estimate_tokens(text),
            });
        }
        items
    }

    fn summaries(&self) -> SummaryTree {
        let mut tree = SummaryTree::default();
        // Rules are never summarised.
        for entry in self.items().into_iter().filter(|entry| entry.kind != JournalItemKind::Rule) {
            tree.push(entry.number, entry.title, entry.headline, &mut ExtractiveSummariser);
        }
        tree
    }

    fn pack(&self, before: PackBorders, policy: &PackPolicy) -> Packing {
        pack(&self.items(), &self.summaries(), &[], before, policy)
    }
}

fn reasons(packing: &Packing) -> Vec<ContextReason> {
    packing.parts.iter().map(|part| part.reason).collect()
}

#[test]
fn a_short_journal_is_read_whole() {
    let packing = Journal::of_steps(5, 200).pack(PackBorders::default(), &PackPolicy::new(100_000));
    assert!(
        reasons(&packing).iter().all(|reason| matches!(reason, ContextReason::Rule | ContextReason::New))
    );
    assert!(!packing.moved && packing.parts.iter().all(|part| part.replaced_by.is_none()));
}

#[test]
fn old_results_are_masked_in_steps_with_a_line_of_what_they_were() {
    let policy = PackPolicy::new(100_000);
    let before = Journal::of_steps(17, 300).pack(PackBorders::default(), &policy);
    assert!(!before.moved);
    let packing = Journal::of_steps(18, 300).pack(before.borders, &policy);
    assert!(packing.moved);
    let masked: Vec<&PackedPart> =
        packing.parts.iter().filter(|part| part.reason == ContextReason::Masked).collect();
    assert_eq!(masked.len(), 8);
    let line = masked[0].replaced_by.as_deref().unwrap();
    assert!(line.contains("\"number\": 3") && line.contains("result 0") && masked[0].tokens < 80, "{line}");
    assert!(packing.tokens * 100 < before.tokens * 65, "{} {}", packing.tokens, before.tokens);
    // The prefix stays until the next step is due.
    let next = Journal::of_steps(19, 300).pack(packing.borders, &policy);
    assert!(!next.moved);
    assert_eq!(next.parts[..packing.parts.len()], packing.parts[..]);
}

#[test]
fn a_small_window_is_kept_by_masks_and_summaries() {
    let policy = PackPolicy::new(6_000);
    let packing = Journal::of_steps(300, 400).pack(PackBorders::default(), &policy);
    assert!(packing.tokens <= 6_000, "{}", packing.tokens);
    assert_eq!(packing.parts[0].reason, ContextReason::Rule);
    assert!(reasons(&packing).contains(&ContextReason::Summary));
    assert_eq!(packing.parts.last().unwrap().reason, ContextReason::New);
}

#[test]
fn only_the_newest_plan_is_read() {
    let mut journal = Journal::of_steps(1, 3);
    journal.0.push((JournalItemKind::Plan, "old plan".into()));
    journal.0.push((JournalItemKind::Plan, "new plan".into()));
    let packing = journal.pack(PackBorders::default(), &PackPolicy::new(1000));
    let plans: Vec<_> = packing
        .parts
        .iter()
        .filter(|part| part.reason == ContextReason::Plan)
        .map(|part| part.entries.clone())
        .collect();
    assert_eq!(plans, [5..=5]);
}

#[test]
fn recalled_passages_come_last_and_never_twice() {
    let journal = Journal::of_steps(18, 300);
    let passage = |number| RecalledText { number, text: "a passage", tokens: 2 };
    let packing = pack(
        &journal.items(),
        &journal.summaries(),
        &[passage(3), passage(37)],
        PackBorders::default(),
        &PackPolicy::new(100_000),
    );
    let recalled: Vec<_> = packing
        .parts
        .iter()
        .filter(|part| part.reason == ContextReason::Recalled)
        .map(|part| part.entries.clone())
        .collect();
    assert_eq!(recalled, [3..=3]);
    assert_eq!(packing.parts.last().unwrap().reason, ContextReason::Recalled);
}

proptest! {
    #[test]
    fn rules_are_always_whole_and_every_entry_is_accounted_for(
        kinds in prop::collection::vec((0u8..5, 1usize..300), 1..80),
        budget in 200u64..5000,
        borders in (0u64..80, 0u64..80),
    ) {
        let kind = |number: u8| [JournalItemKind::Rule, JournalItemKind::Plan, JournalItemKind::Answer, JournalItemKind::Result, JournalItemKind::Note][usize::from(number)];
        let journal = Journal(kinds.iter().map(|&(number, words)| (kind(number), "word ".repeat(words))).collect());
        let before = PackBorders { masked_until: borders.0.max(borders.1), summarised_until: borders.1 };
        let packing = journal.pack(before, &PackPolicy::new(budget));
        let items = journal.items();
        for entry in &items {
            let parts: Vec<&PackedPart> = packing.parts.iter().filter(|part| part.entries.contains(&entry.number)).collect();
            let whole = parts.iter().any(|part| part.replaced_by.is_none());
            match entry.kind {
                JournalItemKind::Rule => prop_assert!(whole),
                JournalItemKind::Plan => {}
                _ => prop_assert!(!parts.is_empty(), "{}", entry.number),
            }
        }
        prop_assert_eq!(packing.tokens, packing.parts.iter().map(|part| part.tokens).sum::<u64>());
    }
}
