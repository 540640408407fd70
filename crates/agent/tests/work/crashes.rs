//! Wherever a loop dies, the next one goes on: each call runs once, or is told as interrupted.

use std::collections::BTreeMap;

use sandyard_agent::AgentEnd;
use sandyard_protocol::{JournalEntry, ModelCall, ModelFailure, ModelPart};

use crate::world::{Answer, World, finish, shell, turn};

const STEPS: usize = 30;

/// Thirty steps: commands one by one, two at a time, files, a plan, then the end.
fn thirty_steps(call: &ModelCall) -> Result<Answer, ModelFailure> {
    let turn = turn(call);
    let calls = match turn {
        STEPS.. => vec![finish()],
        turn if turn % 7 == 3 => vec![shell(&format!("left {turn}")), shell(&format!("right {turn}"))],
        turn if turn % 7 == 5 => {
            let write = |name: &str| {
                ("files", format!(r#"{{"action":"write","path":"{name}-{turn}","content":"x"}}"#))
            };
            vec![write("a"), write("b"), shell(&format!("after {turn}"))]
        }
        turn if turn % 7 == 6 => vec![("plan", format!(r#"{{"items":["step {turn}"]}}"#))],
        turn => vec![shell(&format!("step {turn}"))],
    };
    Ok(Answer { text: format!("turn {turn}"), calls, ..Answer::default() })
}

fn counts(ran: &[String]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for command in ran {
        *counts.entry(command.clone()).or_default() += 1;
    }
    counts
}

/// What calls do in the machine, by their id, from the answers of a journal.
fn effects(journal: &[JournalEntry]) -> BTreeMap<String, String> {
    let calls = journal.iter().filter_map(|entry| match entry {
        JournalEntry::Answer { calls, .. } => Some(calls),
        _ => None,
    });
    calls
        .flatten()
        .filter_map(|call| {
            let arguments: serde_json::Value = serde_json::from_str(&call.arguments).ok()?;
            let effect = match call.name.as_str() {
                "shell" => arguments["command"].as_str()?.to_owned(),
                "files" => format!("write {}", arguments["path"].as_str()?),
                _ => return None,
            };
            Some((call.id.clone(), effect))
        })
        .collect()
}

#[tokio::test]
async fn every_cut_of_the_journal_is_gone_on_from_and_nothing_runs_twice() {
    let first = World::new("do thirty steps", thirty_steps);
    assert_eq!(first.work().await, AgentEnd::Finished);
    let whole = first.entries();
    let everything = counts(&first.state().ran);
    assert!(whole.len() > 3 * STEPS && everything.values().all(|count| *count == 1), "{everything:?}");

    for cut in 1..whole.len() {
        let kept = whole[..cut].to_vec();
        let began: Vec<&String> = kept
            .iter()
            .filter_map(|entry| match entry {
                JournalEntry::StepBegan { call, .. } => Some(call),
                _ => None,
            })
            .collect();
        let is_over = |id: &str| {
            kept.iter().any(|entry| matches!(entry, JournalEntry::StepEnded { call, .. } if call == id))
        };
        let effects = effects(&whole);
        let world = World::with_journal(kept.clone(), Box::new(thirty_steps));
        assert_eq!(world.work().await, AgentEnd::Finished, "cut at {cut}");

        let mut ran = counts(&world.state().ran);
        for call in &began {
            if let Some(effect) = effects.get(*call) {
                assert_eq!(ran.insert(effect.clone(), 1), None, "{effect} ran again after the cut at {cut}");
            }
        }
        assert_eq!(ran, everything, "cut at {cut}");

        let journal = world.entries();
        assert_eq!(journal[..cut], kept, "the past stays");
        for call in began.iter().filter(|call| !is_over(call) && effects.contains_key(**call)) {
            let told = journal.iter().any(|entry| {
                matches!(entry, JournalEntry::StepEnded { call: ended, interrupted: true, failed: true, .. } if *ended == **call)
            });
            assert!(told, "call {call} was cut off at {cut} and is not told so");
        }
        let interrupted = journal[cut..]
            .iter()
            .filter(|entry| matches!(entry, JournalEntry::StepEnded { interrupted: true, .. }));
        assert!(interrupted.count() <= 2, "only what was running is interrupted, cut at {cut}");
    }
}

#[tokio::test]
async fn a_finished_or_given_up_job_stays_so() {
    for (entry, end) in [
        (JournalEntry::Finished { summary: "x".into() }, AgentEnd::Finished),
        (JournalEntry::GaveUp { reason: "x".into() }, AgentEnd::GaveUp),
    ] {
        let world =
            World::with_journal(vec![JournalEntry::Task { text: "t".into() }, entry], Box::new(thirty_steps));
        assert_eq!(world.work().await, end);
        assert!(world.state().asked.is_empty());
    }
}

#[tokio::test]
async fn a_desk_that_is_lost_after_an_entry_was_kept_is_opened_again_and_nothing_is_written_twice() {
    for requests in 1..25 {
        let world = World::new("t", |call| {
            let calls =
                if turn(call) < 8 { vec![shell(&format!("step {}", turn(call)))] } else { vec![finish()] };
            Ok(Answer { calls, ..Answer::default() })
        });
        world.state().cut_desk_after = Some(requests);
        assert_eq!(world.work().await, AgentEnd::Finished, "{requests}");
        let commands: Vec<String> = (0..8).map(|turn| format!("step {turn}")).collect();
        assert_eq!(world.state().ran, commands, "{requests}");
        let entries = world.entries();
        let began = entries.iter().filter(|entry| matches!(entry, JournalEntry::StepBegan { .. })).count();
        assert_eq!(began, 9, "{requests}");
    }
}

#[tokio::test]
async fn a_new_machine_is_told_to_the_model_with_the_step_that_was_lost() {
    let world = World::new("t", |call| {
        let calls = if turn(call) == 0 { vec![shell("hang")] } else { vec![finish()] };
        Ok(Answer { calls, ..Answer::default() })
    });
    let lost = tokio::spawn(sandyard_agent::run(world.socket()));
    world
        .until(|journal| journal.iter().any(|row| matches!(row.entry, JournalEntry::StepBegan { .. })))
        .await;
    // The journal has the step before the machine has the command.
    while world.state().ran.is_empty() {
        tokio::task::yield_now().await;
    }
    lost.abort();
    let _ = lost.await;
    world.state().incarnation = 2;
    world.state().running.clear();
    assert_eq!(world.work().await, AgentEnd::Finished);
    let told = format!("{:?}", world.state().asked.last().unwrap().messages);
    assert!(told.contains("Interrupted") && told.contains("replaced by a new one"), "{told}");
    assert_eq!(world.state().ran, ["hang"]);
}

#[tokio::test]
async fn a_command_that_still_runs_after_the_loop_died_is_named() {
    let world = World::new("t", |call| {
        let calls = if turn(call) == 0 { vec![shell("hang")] } else { vec![finish()] };
        Ok(Answer { calls, ..Answer::default() })
    });
    let lost = tokio::spawn(sandyard_agent::run(world.socket()));
    world
        .until(|journal| journal.iter().any(|row| matches!(row.entry, JournalEntry::StepBegan { .. })))
        .await;
    while world.state().running.is_empty() {
        tokio::task::yield_now().await;
    }
    lost.abort();
    let _ = lost.await;
    assert_eq!(world.work().await, AgentEnd::Finished);
    let entries = world.entries();
    let said = entries.iter().find_map(|entry| match entry {
        JournalEntry::StepEnded { interrupted: true, parts, .. } => match &parts[0] {
            ModelPart::Text { text } => Some(text.clone()),
            ModelPart::Png { .. } => None,
        },
        _ => None,
    });
    let said = said.expect("it is told");
    assert!(said.contains("p1-1"), "{said}");
    assert_eq!(world.state().ran, ["hang"]);
}
