use sandyard_protocol::{JournalEntry, JournalRow, ModelUsage, StopReason, ToolCall};

use super::*;

fn model(window_tokens: u32) -> ModelFacts {
    ModelFacts { name: "m".into(), replay: false, sees: true, window_tokens, max_output_tokens: 1000 }
}

/// A conversation of so many turns, each with a result of these parts.
fn conversation(turns: u64, parts: &[ModelPart]) -> Conversation {
    let mut conversation = Conversation::default();
    let mut number = 0;
    let mut add = |entry| {
        number += 1;
        conversation.apply(JournalRow { number, at_ms: 0, incarnation: 1, entry });
    };
    add(JournalEntry::Task { text: "task".into() });
    for turn in 0..turns {
        let call = format!("c{turn}");
        add(JournalEntry::Answer {
            model: String::new(),
            text: "words".into(),
            calls: vec![ToolCall { id: call.clone(), name: "shell".into(), arguments: "{}".into() }],
            stop: StopReason::Calls,
            usage: ModelUsage::default(),
        });
        add(JournalEntry::StepBegan { call: call.clone(), name: "shell".into(), arguments: "{}".into() });
        add(JournalEntry::StepEnded {
            call,
            parts: parts.to_vec(),
            failed: false,
            interrupted: false,
            took_ms: 0,
            files: Vec::new(),
        });
    }
    conversation
}

fn text(bytes: usize) -> ModelPart {
    ModelPart::Text { text: "x".repeat(bytes) }
}

fn packed(conversation: &mut Conversation, numbers: Vec<u64>) {
    let number = conversation.last() + 1;
    let entry = JournalEntry::Packed { numbers };
    conversation.apply(JournalRow { number, at_ms: 0, incarnation: 1, entry });
}

#[test]
fn nothing_is_packed_while_there_is_room() {
    let window = Window::of(&model(100_000));
    let conversation = conversation(10, &[text(1000)]);
    assert!(window.pack(&conversation, &[], Correction::default()).is_empty());
    assert!(context(&conversation, &[]).is_empty(), "everything is in the call as it is");
}

#[test]
fn old_results_go_first_and_then_it_fits_for_long() {
    let window = Window::of(&model(100_000));
    let mut conversation = conversation(30, &[text(10_000)]);
    let numbers = window.pack(&conversation, &[], Correction::default());
    assert!(
        !numbers.is_empty() && numbers.iter().all(|number| number % 3 == 1),
        "results alone: {numbers:?}"
    );
    let newest = conversation.last();
    assert!(!numbers.contains(&newest) && numbers.windows(2).all(|pair| pair[0] < pair[1]));
    packed(&mut conversation, numbers);
    assert!(estimate(&conversation, &[]) <= 99_000 * PackPolicy::new(1).packed_percent / 100);
    assert!(window.pack(&conversation, &[], Correction::default()).is_empty());
}

#[test]
fn when_stubs_are_not_enough_whole_turns_go_but_not_under_a_replay() {
    let many = conversation(2000, &[text(100)]);
    let numbers = Window::of(&model(30_000)).pack(&many, &[], Correction::default());
    assert!(numbers.iter().any(|number| number % 3 == 2), "answers are named");
    let replay = ModelFacts { replay: true, ..model(30_000) };
    let numbers = Window::of(&replay).pack(&many, &[], Correction::default());
    assert!(numbers.iter().all(|number| number % 3 == 1), "results alone");
}

#[test]
fn a_provider_that_counts_more_makes_it_pack_earlier() {
    let window = Window::of(&model(100_000));
    let conversation = conversation(15, &[text(13_000)]);
    assert!(window.pack(&conversation, &[], Correction::default()).is_empty());
    let mut correction = Correction::default();
    correction.learn(100, 170);
    assert!(!window.pack(&conversation, &[], correction).is_empty());
}

#[test]
fn many_pictures_become_few_and_the_newest_stay() {
    let window = Window::of(&model(1_000_000));
    let picture = ModelPart::Png { base64: "x".repeat(1000) };
    let mut conversation = conversation(14, &[text(10), picture]);
    let numbers = window.pack(&conversation, &[], Correction::default());
    packed(&mut conversation, numbers);
    let shown = window.messages(&conversation, &[]);
    let pictures = serde_json::to_string(&shown).unwrap().matches("\"png\"").count();
    assert_eq!(pictures, WHOLE_TURNS, "those of the newest turns");
    assert!(window.pack(&conversation, &[], Correction::default()).is_empty());
}

#[test]
fn a_model_that_does_not_see_is_told_that_there_was_a_picture() {
    let blind = Window::of(&ModelFacts { sees: false, ..model(100_000) });
    let shown = blind.messages(&conversation(1, &[ModelPart::Png { base64: "x".into() }]), &[]);
    let shown = serde_json::to_string(&shown).unwrap();
    assert!(!shown.contains("png") && shown.contains("which you can't see"), "{shown}");
}

#[test]
fn a_model_that_nobody_knows_does_no_harm() {
    let nothing = ModelFacts { window_tokens: 0, max_output_tokens: 0, ..model(0) };
    let window = Window::of(&nothing);
    let _ = window.pack(&conversation(3, &[text(10)]), &[], Correction::default());
}

/// Two thousand steps of 20 KB each, with a picture in every fourth: what is held stays what the window takes.
#[test]
fn a_long_job_takes_no_more_room_than_a_short_one() {
    let window = Window::of(&model(50_000));
    let mut conversation = conversation(0, &[]);
    let mut held = Vec::new();
    let mut number = conversation.last();
    for step in 0..2000_u64 {
        let call = format!("c{step}");
        let picture = (step % 4 == 0).then(|| ModelPart::Png { base64: "x".repeat(100_000) });
        let calls = vec![ToolCall { id: call.clone(), name: "shell".into(), arguments: "a".repeat(500) }];
        let (model, stop, usage) = (String::new(), StopReason::Calls, ModelUsage::default());
        let began =
            JournalEntry::StepBegan { call: call.clone(), name: "shell".into(), arguments: String::new() };
        let ended = JournalEntry::StepEnded {
            call,
            parts: [text(20_000)].into_iter().chain(picture).collect(),
            failed: false,
            interrupted: false,
            took_ms: 0,
            files: Vec::new(),
        };
        let answer = JournalEntry::Answer { model, text: "words".into(), calls, stop, usage };
        for entry in [answer, began, ended] {
            number += 1;
            conversation.apply(JournalRow { number, at_ms: 0, incarnation: 1, entry });
        }
        let numbers = window.pack(&conversation, &[], Correction::default());
        if !numbers.is_empty() {
            number += 1;
            packed(&mut conversation, numbers);
        }
        held.push(serde_json::to_vec(&window.messages(&conversation, &[])).unwrap().len());
    }
    let most = |steps: &[usize]| steps.iter().copied().max().unwrap();
    let (early, late) = (most(&held[100..300]), most(&held[1800..]));
    assert!(late <= early + early / 10, "{early} bytes early, {late} late");
    assert!(conversation.turns().len() < 200, "{}", conversation.turns().len());
}

#[test]
fn what_is_recalled_comes_last_and_everything_is_accounted_for() {
    let window = Window::of(&model(100_000));
    let mut conversation = conversation(20, &[text(2_000)]);
    let numbers = window.pack(&conversation, &[], Correction::default());
    assert_eq!(numbers.len(), 10, "old results are masked although there is room");
    packed(&mut conversation, numbers);
    let recalled = [RecalledWords { entry: 4, text: "[4] result: the port is 5432".into() }];
    let plain = window.messages(&conversation, &[]);
    let shown = window.messages(&conversation, &recalled);
    assert_eq!(shown[..plain.len()], plain[..], "the prefix stays");
    let parts = context(&conversation, &recalled);
    let count = |reason| parts.iter().filter(|part| part.reason == reason).count();
    assert_eq!((count(ContextReason::Masked), count(ContextReason::Recalled)), (10, 1));
    assert!(parts.iter().filter(|part| part.reason == ContextReason::Masked).all(|part| {
        part.replaced_by.as_deref().is_some_and(|line| line.contains(&format!("\"number\": {}", part.first)))
    }));
    let entries: Vec<u64> = conversation.turns().iter().map(ConversationTurn::last).collect();
    for entry in entries {
        assert!(parts.iter().any(|part| (part.first..=part.last).contains(&entry)), "{entry}: {parts:?}");
    }
}
