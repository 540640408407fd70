//! Tools over the socket: at the same time, refused, remembered; and a long job that takes no more room than a short one.

use sandyard_agent::AgentEnd;
use sandyard_protocol::{JournalEntry, ModelCall, ModelMessage, ModelPart};

use crate::world::{Answer, World, finish, shell, turn};

/// The text of the result that the last answer was shown.
fn results(call: &ModelCall) -> Vec<(String, bool)> {
    let last = call.messages.iter().rev().find_map(|message| match message {
        ModelMessage::Tools { results } => Some(results),
        _ => None,
    });
    let text = |parts: &[ModelPart]| match parts.first() {
        Some(ModelPart::Text { text }) => text.clone(),
        _ => String::new(),
    };
    last.map(|results| results.iter().map(|result| (text(&result.parts), result.failed)).collect())
        .unwrap_or_default()
}

#[tokio::test]
async fn commands_of_one_answer_run_at_the_same_time_and_results_keep_their_order() {
    let world = World::new("t", |call| {
        let calls = match turn(call) {
            0 => vec![shell("sleep 150"), shell("sleep 50"), shell("sleep 100")],
            _ => vec![finish()],
        };
        Ok(Answer { calls, ..Answer::default() })
    });
    assert_eq!(world.work().await, AgentEnd::Finished);
    assert_eq!(world.state().most_at_once, 3);
    let shown = results(&world.state().asked[1]);
    let order: Vec<bool> = ["sleep 150", "sleep 50", "sleep 100"]
        .iter()
        .zip(&shown)
        .map(|(said, (text, _))| text.contains(said))
        .collect();
    assert_eq!(order, [true, true, true], "{shown:?}");
}

#[tokio::test]
async fn wrong_calls_are_answered_with_what_would_be_right_and_do_nothing() {
    let wrong = [
        ("shell", r#"{"comand":"ls"}"#, "it takes command"),
        ("shell", r#"{"command":"ls"#, "end in the middle"),
        ("shell", "{}", "either a `command` or a `process`"),
        ("teleport", "{}", "There is no tool `teleport`"),
        ("files", r#"{"action":"fly","path":"a"}"#, "unknown variant"),
        ("files", r#"{"action":"view","path":"/etc/passwd"}"#, "outside of /workspace"),
        ("files", r#"{"action":"edit","path":"a"}"#, "edit needs `old`"),
        ("files", r#"{"action":"view","path":"missing"}"#, "there is no such thing"),
        ("gui", r#"{"actions":[{"type":"fly"}]}"#, "unknown variant"),
        ("code", r#"{"language":"cobol","code":"x"}"#, "unknown variant"),
        ("plan", r#"{"items":"x"}"#, "invalid type"),
        ("ask", r#"{"question":" "}"#, "is empty"),
        ("recall", "{}", "a `path` or a `number`"),
        ("finish", "{}", "missing field `summary`"),
    ];
    let calls: Vec<(&'static str, String)> =
        wrong.iter().map(|(name, arguments, _)| (*name, (*arguments).to_owned())).collect();
    let world = World::new("t", move |call| {
        let calls = if turn(call) == 0 { calls.clone() } else { vec![finish()] };
        Ok(Answer { calls, ..Answer::default() })
    });
    let working = tokio::spawn(sandyard_agent::run(world.socket()));
    // So many failures in a row are told to the model; the job itself goes on.
    assert_eq!(working.await.unwrap(), AgentEnd::Finished);
    let shown = results(&world.state().asked[1]);
    for ((name, arguments, said), (text, failed)) in wrong.iter().zip(&shown) {
        assert!(text.contains(said) && *failed, "{name} {arguments}: {text}");
    }
    assert_eq!(world.state().ran, Vec::<String>::new());
}

#[tokio::test]
async fn finish_beside_a_failure_does_not_end_the_job() {
    let world = World::new("t", |call| {
        let calls = if turn(call) == 0 { vec![shell("false"), finish()] } else { vec![finish()] };
        Ok(Answer { calls, ..Answer::default() })
    });
    assert_eq!(world.work().await, AgentEnd::Finished);
    assert_eq!(world.state().asked.len(), 2);
}

#[tokio::test]
async fn what_was_cut_is_recalled_whole() {
    let world = World::new("t", |call| {
        let calls = match turn(call) {
            0 => vec![shell("yes 20000")],
            1 => {
                let (text, _) = results(call).remove(0);
                let number: u64 =
                    text.split("\"number\": ").nth(1).unwrap().split('}').next().unwrap().parse().unwrap();
                vec![("recall", format!(r#"{{"number":{number},"first":19990}}"#))]
            }
            2 => vec![("recall", r#"{"query":"the task words"}"#.to_owned())],
            _ => vec![finish()],
        };
        Ok(Answer { calls, ..Answer::default() })
    });
    world.state().journal[0].entry = JournalEntry::Task { text: "find the task words".into() };
    assert_eq!(world.work().await, AgentEnd::Finished);
    let state = world.state();
    let (first, _) = results(&state.asked[1]).remove(0);
    assert!(first.len() < 20_000 && first.contains("left out"), "{}", first.len());
    let (recalled, _) = results(&state.asked[2]).remove(0);
    assert!(recalled.contains("20000\ty") && recalled.contains("a result"), "{recalled}");
    let (found, _) = results(&state.asked[3]).remove(0);
    assert!(found.contains("[1] the task:\nfind the task words"), "{found}");
}

#[tokio::test]
async fn a_long_job_fits_its_window_and_people_are_not_forgotten() {
    let world = World::new("build it with tabs", |call| {
        let calls = match turn(call) {
            _ if format!("{:?}", call.messages).contains("did step 400\"") => vec![finish()],
            _ => {
                let next = last_step(call).map_or(0, |step| step + 1);
                vec![shell(&format!("step {next}")), shell(&format!("yes {}", 3000 + next))]
            }
        };
        Ok(Answer { text: "words ".repeat(50), calls, input_tokens: 0, ..Answer::default() })
    });
    world.say("and no comments");
    assert_eq!(world.work().await, AgentEnd::Finished);
    let state = world.state();
    // What a provider gets: the list of parts stays on the host.
    let size = |call: &ModelCall| serde_json::to_vec(&call.messages).unwrap().len();
    let sizes: Vec<usize> = state.asked.iter().map(size).collect();
    // 96,000 tokens are some 320,000 bytes, of which 85 of a hundred are used; here every third byte of JSON is an escape.
    assert!(sizes.iter().all(|size| *size < 410_000), "{:?}", sizes.iter().max());
    for call in &state.asked {
        let shown = format!("{:?}", call.messages.first());
        assert!(shown.contains("build it with tabs") && shown.contains("and no comments"));
        let [.., last] = call.messages.as_slice() else { panic!("no messages") };
        assert!(matches!(last, ModelMessage::Tools { .. } | ModelMessage::User { .. }));
    }
    assert!(format!("{:?}", state.asked.last().unwrap().messages.first()).contains("are left out here"));
}

fn last_step(call: &ModelCall) -> Option<u64> {
    let calls = call.messages.iter().rev().find_map(|message| match message {
        ModelMessage::Assistant { calls, .. } => calls.first(),
        _ => None,
    })?;
    calls.arguments.split("step ").nth(1)?.trim_end_matches("\"}").parse().ok()
}
