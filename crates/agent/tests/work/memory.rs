//! The memory over the socket: what is kept behind entries, what is asked for a step, and how the model puts results away.

use sandyard_agent::AgentEnd;
use sandyard_protocol::{
    ContextReason, JournalEntry, JournalPassage, ModelCall, ModelMessage, ModelPart, TextOrigin,
};

use crate::world::{Answer, World, finish, shell, turn};

fn passage(entry: u64, text: &str) -> JournalPassage {
    JournalPassage {
        entry,
        origin: "result".into(),
        path: "shell".into(),
        first_line: 1,
        last_line: 1,
        seen: 1,
        first_seen: entry,
        text: text.into(),
    }
}

fn last_words(call: &ModelCall) -> String {
    match call.messages.last() {
        Some(ModelMessage::User { parts }) => format!("{parts:?}"),
        _ => String::new(),
    }
}

#[tokio::test]
async fn a_long_output_is_kept_whole_and_files_as_they_were_written() {
    let world = World::new("t", |call| {
        let calls = match turn(call) {
            0 => vec![shell("yes 200000"), shell("echo short")],
            1 => vec![("files", r#"{"action":"write","path":"a.py","content":"one\n"}"#.to_owned())],
            2 => vec![("files", r#"{"action":"view","path":"a.py"}"#.to_owned())],
            _ => vec![finish()],
        };
        Ok(Answer { calls, ..Answer::default() })
    });
    assert_eq!(world.work().await, AgentEnd::Finished);
    let state = world.state();
    let kept: Vec<(TextOrigin, &str, usize)> =
        state.kept.iter().map(|(text, bytes)| (text.origin, text.path.as_str(), bytes.len())).collect();
    let file = (TextOrigin::File, "a.py", 4);
    assert_eq!(kept, [(TextOrigin::Result, "shell", 400_000), file, file]);
}

#[tokio::test]
async fn what_is_kept_is_sent_again_with_an_entry_that_is_appended_again() {
    let world = World::new("t", |call| {
        let write = ("files", r#"{"action":"write","path":"a","content":"x"}"#.to_owned());
        let calls = if turn(call) == 0 { vec![write] } else { vec![finish()] };
        Ok(Answer { calls, ..Answer::default() })
    });
    // Open, then the begin of the step, then its end.
    world.state().cut_desk_after = Some(2);
    assert_eq!(world.work().await, AgentEnd::Finished);
    let state = world.state();
    assert!(state.kept.iter().all(|(text, bytes)| text.path == "a" && bytes == b"x"));
    let ends = state.journal.iter().filter(|row| matches!(row.entry, JournalEntry::StepEnded { .. }));
    assert_eq!(ends.count(), 1, "once");
}

#[tokio::test]
async fn a_step_is_shown_what_was_found_for_it_once_results_are_masked() {
    let world = World::new("t", |call| {
        let calls = match turn(call) {
            step if step < 20 => vec![shell(&format!("yes {}", 400 + step))],
            _ => vec![finish()],
        };
        Ok(Answer { calls, text: format!("now step {}", turn(call)), ..Answer::default() })
    });
    world.state().passages = Some(vec![passage(4, "the port is 5432")]);
    assert_eq!(world.work().await, AgentEnd::Finished);
    let state = world.state();
    let (first, last) = (&state.asked[0], state.asked.last().unwrap());
    assert!(
        first.packing.is_empty() && !last_words(&state.asked[5]).contains("5432"),
        "short ones are as before"
    );
    let digest = String::from_utf8(state.files["context.txt"].clone()).unwrap();
    assert!(digest.contains("This is the task") && digest.contains("shell: exit code 0"), "{digest}");
    assert!(
        last_words(last).contains("[4] result, shell, lines 1 to 1:\\nthe port is 5432"),
        "{}",
        last_words(last)
    );
    let reasons: Vec<ContextReason> = last.packing.iter().map(|part| part.reason).collect();
    assert_eq!(reasons.first(), Some(&ContextReason::Rule));
    assert_eq!(reasons.last(), Some(&ContextReason::Recalled));
    assert!(reasons.contains(&ContextReason::Masked) && reasons.contains(&ContextReason::New));
    let question = state.questions.last().unwrap();
    assert!(question.text.contains("now step") && question.before.is_some(), "{question:?}");
}

#[tokio::test]
async fn the_model_puts_results_away_and_keeps_its_note() {
    let world = World::new("t", |call| {
        let calls = match turn(call) {
            step if step < 4 => vec![shell(&format!("yes {}", 400 + step))],
            4 => vec![("pack", r#"{"note":"the parser is done"}"#.to_owned())],
            _ => vec![finish()],
        };
        Ok(Answer { calls, ..Answer::default() })
    });
    assert_eq!(world.work().await, AgentEnd::Finished);
    let state = world.state();
    let packed = state.journal.iter().find_map(|row| match &row.entry {
        JournalEntry::Packed { numbers } => Some(numbers.len()),
        _ => None,
    });
    assert_eq!(packed, Some(3), "all but those of the newest turns");
    let last = state.asked.last().unwrap();
    let shown = format!("{:?}", last.messages);
    assert!(shown.contains("the parser is done") && shown.contains("`recall` with"), "{shown}");
    let texts = last.messages.iter().flat_map(|message| match message {
        ModelMessage::Tools { results } => results.iter().flat_map(|result| &result.parts).collect(),
        _ => Vec::new(),
    });
    let whole = texts.filter(|part| matches!(part, ModelPart::Text { text } if text.len() > 700));
    assert_eq!(whole.count(), 1, "the newest result");
}
