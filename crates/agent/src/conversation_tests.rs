use sandyard_protocol::{ModelUsage, Speaker};

use super::*;

fn row(number: u64, entry: JournalEntry) -> JournalRow {
    JournalRow { number, at_ms: 0, incarnation: 1, entry }
}

fn told(entries: Vec<JournalEntry>) -> Conversation {
    let mut conversation = Conversation::default();
    for (number, entry) in (1..).zip(entries) {
        conversation.apply(row(number, entry));
    }
    conversation
}

fn task() -> JournalEntry {
    JournalEntry::Task { text: "do it".into() }
}

fn answer(ids: &[&str]) -> JournalEntry {
    let call = |id: &&str| ToolCall { id: (*id).to_owned(), name: "shell".into(), arguments: "{}".into() };
    JournalEntry::Answer {
        model: String::new(),
        text: "words".into(),
        calls: ids.iter().map(call).collect(),
        stop: StopReason::Calls,
        usage: ModelUsage::default(),
    }
}

fn began(call: &str) -> JournalEntry {
    JournalEntry::StepBegan { call: call.into(), name: "shell".into(), arguments: "{}".into() }
}

fn ended(call: &str, text: &str) -> JournalEntry {
    JournalEntry::StepEnded {
        call: call.into(),
        parts: vec![ModelPart::Text { text: text.into() }],
        failed: false,
        interrupted: false,
        took_ms: 0,
        files: Vec::new(),
    }
}

fn said(text: &str) -> JournalEntry {
    JournalEntry::Said { text: text.into(), by: Speaker::Person, budget: None }
}

#[test]
fn what_is_due_follows_from_the_journal() {
    assert_eq!(told(vec![task()]).due(), Due::Answer);
    assert_eq!(told(vec![task(), answer(&["a", "b"])]).due(), Due::Steps);
    let one_over = vec![task(), answer(&["a", "b"]), began("a"), began("b"), ended("b", "x")];
    assert_eq!(told(one_over.clone()).due(), Due::Steps);
    let both = [one_over, vec![ended("a", "y")]].concat();
    assert_eq!(told(both.clone()).due(), Due::Answer);
    let asked = [both, vec![JournalEntry::Asked { question: "?".into(), why: WhyAsked::Stuck }]].concat();
    assert_eq!(told(asked.clone()).due(), Due::Reply);
    let replied = [asked, vec![said("yes")]].concat();
    assert_eq!(told(replied.clone()).due(), Due::Answer);
    let finished = [replied, vec![JournalEntry::Finished { summary: "s".into() }]].concat();
    assert_eq!(told(finished).due(), Due::Finished);
}

#[test]
fn results_are_in_the_order_of_the_calls_however_they_ended() {
    let conversation =
        told(vec![task(), answer(&["a", "b"]), began("a"), began("b"), ended("b", "B"), ended("a", "A")]);
    let results = conversation.turns()[0].results();
    let order: Vec<&str> = results.iter().map(|result| result.call.as_str()).collect();
    assert_eq!(order, ["a", "b"]);
}

#[test]
fn calls_with_the_same_id_are_told_apart_by_their_order() {
    let conversation =
        told(vec![task(), answer(&["a", "a"]), began("a"), began("a"), ended("a", "1"), ended("a", "2")]);
    assert_eq!(conversation.due(), Due::Answer);
    assert!(conversation.calls().iter().all(|call| call.began.is_some()));
}

#[test]
fn turns_that_are_packed_away_leave_the_words_of_people() {
    let conversation = told(vec![
        task(),
        answer(&["a"]),
        began("a"),
        ended("a", "x"),
        said("use tabs"),
        JournalEntry::Nudge { text: "forgettable".into() },
        answer(&["b"]),
        began("b"),
        ended("b", "y"),
        JournalEntry::Packed { numbers: vec![2, 9] },
    ]);
    let (head, left_out) = conversation.head();
    let words: Vec<&str> = head.iter().map(|note| note.text.as_str()).collect();
    assert!(words.len() == 2 && words[1].contains("use tabs"), "{words:?}");
    assert_eq!((left_out.turns, left_out.last, conversation.turns().len()), (1, 6, 1));
    let result = &conversation.turns()[0].results()[0];
    assert!(format!("{result:?}").contains("`recall` with {\\\"number\\\": 9}"), "{result:?}");
}

#[test]
fn the_last_turn_is_never_packed_away() {
    let conversation = told(vec![
        task(),
        answer(&["a"]),
        began("a"),
        ended("a", "x"),
        JournalEntry::Packed { numbers: vec![2] },
    ]);
    assert_eq!(conversation.turns().len(), 1);
}
