//! What the model is told, what people say, and how a job ends without being done.

use std::sync::atomic::{AtomicUsize, Ordering};

use sandyard_agent::AgentEnd;
use sandyard_protocol::{
    JournalEntry, ModelFailure, ModelFailureCode, ModelMessage, OnBreach, StopReason, TaskBudget, WhyAsked,
};

use crate::world::{Answer, World, finish, shell, turn};

fn asked_why(journal: &[JournalEntry]) -> Vec<WhyAsked> {
    journal
        .iter()
        .filter_map(|entry| match entry {
            JournalEntry::Asked { why, .. } => Some(*why),
            _ => None,
        })
        .collect()
}

fn failure(code: ModelFailureCode) -> ModelFailure {
    ModelFailure { code, message: "so it is".into() }
}

#[tokio::test]
async fn a_question_waits_for_its_answer_and_the_answer_reaches_the_model() {
    let world = World::new("t", |call| {
        let calls = match turn(call) {
            0 => vec![("ask", r#"{"question":"red or blue?"}"#.to_owned())],
            _ => vec![finish()],
        };
        Ok(Answer { calls, ..Answer::default() })
    });
    let working = tokio::spawn(sandyard_agent::run(world.socket()));
    world.until(|journal| journal.iter().any(|row| matches!(row.entry, JournalEntry::Asked { .. }))).await;
    assert!(!working.is_finished());
    world.say("green");
    assert_eq!(working.await.unwrap(), AgentEnd::Finished);
    let told = format!("{:?}", world.state().asked[1].messages);
    assert!(told.contains("The person says:") && told.contains("green"), "{told}");
    assert_eq!(asked_why(&world.entries()), [WhyAsked::Ask]);
}

#[tokio::test]
async fn a_question_survives_the_loop_that_asked_it() {
    let script = |call: &_| {
        let calls = match turn(call) {
            0 => vec![("ask", r#"{"question":"red or blue?"}"#.to_owned())],
            _ => vec![finish()],
        };
        Ok(Answer { calls, ..Answer::default() })
    };
    let world = World::new("t", script);
    let lost = tokio::spawn(sandyard_agent::run(world.socket()));
    world.until(|journal| journal.iter().any(|row| matches!(row.entry, JournalEntry::Asked { .. }))).await;
    lost.abort();
    let _ = lost.await;
    world.say("blue");
    assert_eq!(world.work().await, AgentEnd::Finished);
    assert_eq!(asked_why(&world.entries()), [WhyAsked::Ask], "asked once");
    assert!(
        !world
            .entries()
            .iter()
            .any(|entry| matches!(entry, JournalEntry::StepEnded { interrupted: true, .. }))
    );
}

#[tokio::test]
async fn words_to_a_running_job_are_taken_up_at_the_next_step_after_the_results() {
    let world = World::new("t", |call| {
        let calls = if turn(call) == 0 { vec![shell("sleep 200")] } else { vec![finish()] };
        Ok(Answer { calls, ..Answer::default() })
    });
    let working = tokio::spawn(sandyard_agent::run(world.socket()));
    world
        .until(|journal| journal.iter().any(|row| matches!(row.entry, JournalEntry::StepBegan { .. })))
        .await;
    world.say("use tabs");
    assert_eq!(working.await.unwrap(), AgentEnd::Finished);
    let messages = world.state().asked[1].messages.clone();
    let [.., ModelMessage::Tools { results }, ModelMessage::User { parts }] = messages.as_slice() else {
        panic!("results, then words: {messages:?}")
    };
    assert_eq!(results.len(), 1);
    assert!(format!("{parts:?}").contains("use tabs"));
}

#[tokio::test]
async fn a_circle_is_told_to_the_model_and_then_to_a_person() {
    let world = World::new("t", |call| {
        let heard = format!("{:?}", call.messages).contains("try another way");
        let calls = if heard { vec![finish()] } else { vec![shell("false")] };
        Ok(Answer { calls, ..Answer::default() })
    });
    let working = tokio::spawn(sandyard_agent::run(world.socket()));
    world.until(|journal| journal.iter().any(|row| matches!(row.entry, JournalEntry::Asked { .. }))).await;
    world.say("try another way");
    assert_eq!(working.await.unwrap(), AgentEnd::Finished);
    let journal = world.entries();
    assert_eq!(asked_why(&journal), [WhyAsked::Stuck]);
    let nudges = journal.iter().filter(|entry| matches!(entry, JournalEntry::Nudge { .. })).count();
    assert_eq!((nudges, world.state().ran.len()), (2, 5));
}

#[tokio::test]
async fn answers_without_a_call_are_answered_and_do_not_go_on_for_ever() {
    let world = World::new("t", |_| Ok(Answer { text: "I think…".into(), ..Answer::default() }));
    let working = tokio::spawn(sandyard_agent::run(world.socket()));
    world.until(|journal| journal.iter().any(|row| matches!(row.entry, JournalEntry::Asked { .. }))).await;
    working.abort();
    assert_eq!(world.state().asked.len(), 3);
    let messages = world.state().asked[1].messages.clone();
    assert!(matches!(messages.last(), Some(ModelMessage::User { .. })), "the model has something to answer");
}

#[tokio::test]
async fn a_model_that_declines_makes_the_job_ask() {
    let world = World::new("t", |_| {
        Ok(Answer { text: "I won't.".into(), stop: Some(StopReason::Refused), ..Answer::default() })
    });
    let working = tokio::spawn(sandyard_agent::run(world.socket()));
    world.until(|journal| journal.iter().any(|row| matches!(row.entry, JournalEntry::Asked { .. }))).await;
    working.abort();
    assert_eq!(world.state().asked.len(), 1);
}

#[tokio::test]
async fn a_budget_that_is_used_up_asks_or_ends_by_policy() {
    let script = |call: &sandyard_protocol::ModelCall| {
        let raised = format!("{:?}", call.messages).contains("here is more");
        if raised {
            Ok(Answer { calls: vec![finish()], ..Answer::default() })
        } else {
            Err(failure(ModelFailureCode::Budget))
        }
    };
    let world = World::new("t", script);
    let working = tokio::spawn(sandyard_agent::run(world.socket()));
    world.until(|journal| journal.iter().any(|row| matches!(row.entry, JournalEntry::Asked { .. }))).await;
    world.say("here is more");
    assert_eq!(working.await.unwrap(), AgentEnd::Finished);
    assert_eq!(asked_why(&world.entries()), [WhyAsked::Budget]);

    let world = World::new("t", script);
    world.state().budget = TaskBudget { on_breach: OnBreach::End, ..TaskBudget::default() };
    assert_eq!(world.work().await, AgentEnd::GaveUp);
    assert!(
        matches!(world.entries().last(), Some(JournalEntry::GaveUp { reason }) if reason.contains("budget"))
    );
}

#[tokio::test]
async fn a_provider_that_refuses_ends_the_job_in_words() {
    for code in [ModelFailureCode::Rejected, ModelFailureCode::Credentials, ModelFailureCode::NotAllowed] {
        let world = World::new("t", move |_| Err(failure(code)));
        assert_eq!(world.work().await, AgentEnd::GaveUp);
        assert!(
            matches!(world.entries().last(), Some(JournalEntry::GaveUp { reason }) if reason.ends_with("so it is"))
        );
        assert_eq!(world.state().asked.len(), 1);
    }
}

#[tokio::test]
async fn a_window_that_is_smaller_than_announced_is_packed_until_it_fits() {
    let answers = AtomicUsize::new(0);
    let world = World::new("t", move |call| {
        let long = format!("{:?}", call.messages).len() > 60_000;
        if long {
            return Err(failure(ModelFailureCode::ContextTooLong));
        }
        let answer = answers.fetch_add(1, Ordering::Relaxed);
        let calls = if answer < 20 { vec![shell(&format!("yes {}", 6000 + answer))] } else { vec![finish()] };
        Ok(Answer { calls, ..Answer::default() })
    });
    assert_eq!(world.work().await, AgentEnd::Finished);
    assert!(world.entries().iter().any(|entry| matches!(entry, JournalEntry::Packed { .. })));
}
