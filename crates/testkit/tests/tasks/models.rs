//! Models and their cost limits.

use sandyard_protocol::{JournalEntry, ModelEvent, ModelFailureCode, TaskBudget, WhyAsked};
use sandyard_server::app::JobState;
use sandyard_testkit::{question, task};

use crate::yard::{TaskYard, finished, keep, with_budget};

fn refused(heard: &[ModelEvent]) -> Option<ModelFailureCode> {
    match heard {
        [ModelEvent::Failed(failure)] => Some(failure.code),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_is_used_up_asks_and_a_reply_raises_it() {
    let yard = TaskYard::new(&[("One.", None), ("Two.", None)], |mut it| async move {
        let mut desk = it.desk().await.unwrap();
        assert_eq!(desk.facts.budget.steps, Some(1));
        assert_eq!(it.ask(2).await.len(), 3);
        assert_eq!(refused(&it.ask(3).await), Some(ModelFailureCode::Budget));
        let asked = JournalEntry::Asked { question: "May I go on?".into(), why: WhyAsked::Budget };
        keep(&mut desk, 3, asked).await;
        let row = desk.said().await.unwrap();
        let JournalEntry::Said { budget: Some(budget), .. } = &row.entry else { panic!("{row:?}") };
        assert_eq!((budget.steps, budget.tokens), (Some(2), Some(1_000_000)), "what was not named stays");
        // A replay knows the turn by the answers before.
        let heard = it.call(&second(5)).await;
        assert_eq!(heard.len(), 3, "{heard:?}");
        keep(&mut desk, 6, finished("done")).await;
        0
    })
    .await;
    let budget = TaskBudget { steps: Some(1), tokens: Some(1_000_000), ..TaskBudget::default() };
    let id = yard.schedule(with_budget(budget)).await;
    let waiting = yard.wait(&id, |status| status.state == JobState::Waiting).await;
    assert_eq!(waiting.question.as_deref(), Some("May I go on?"));
    let more = TaskBudget { steps: Some(2), ..TaskBudget::default() };
    yard.yard.reply(&yard.job(&id).await, "Yes, one more.".into(), Some(more)).await.unwrap();
    let status = yard.ended(&id).await;
    assert_eq!((status.state, status.tokens_in), (JobState::Succeeded, 200), "{status:?}");
}

fn second(number: u64) -> sandyard_protocol::ModelCall {
    let mut call = question(number, None);
    call.messages.push(sandyard_protocol::ModelMessage::Assistant { text: "One.".into(), calls: vec![] });
    let first = call.messages[0].clone();
    call.messages.push(first);
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_spent_is_known_to_the_next_server_and_no_answer_is_paid_twice() {
    let yard = TaskYard::new(&[("One.", None)], |mut it| async move {
        let mut servers = 0;
        loop {
            let Ok(mut desk) = it.desk().await else { continue };
            servers += 1;
            let heard = it.ask(2).await;
            if servers == 1 {
                // Until the server is gone.
                while desk.hear().await.is_ok() {}
                continue;
            }
            assert_eq!(heard.len(), 3, "the same answer again: {heard:?}");
            assert_eq!((desk.facts.spent.steps, desk.facts.spent.tokens), (1, 110));
            assert_eq!(refused(&it.ask(3).await), Some(ModelFailureCode::Budget), "the one step is used up");
            keep(&mut desk, 3, finished("done")).await;
            return 0;
        }
    })
    .await;
    let id = yard.schedule(with_budget(TaskBudget { steps: Some(1), ..TaskBudget::default() })).await;
    yard.wait(&id, |status| status.tokens_out == 10).await;
    let yard = yard.crash_and_restart().await;
    let status = yard.ended(&id).await;
    assert_eq!(
        (status.state, status.tokens_in, status.tokens_out),
        (JobState::Succeeded, 100, 10),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_does_not_fit_is_a_clear_failure() {
    let yard = TaskYard::new(&[("One.", Some(r#"{"command":"ls"}"#))], |mut it| async move {
        let mut desk = it.desk().await.unwrap();
        let heard = it.call(&second(2)).await;
        let [ModelEvent::Failed(failure)] = &heard[..] else { panic!("{heard:?}") };
        keep(&mut desk, 2, JournalEntry::GaveUp { reason: failure.message.clone() }).await;
        1
    })
    .await;
    let id = yard.schedule(task("do it")).await;
    let reason = yard.ended(&id).await.reason.unwrap();
    assert!(
        reason.contains("the calls of turn 1 differ\n- recorded: shell {\"command\":\"ls\"}"),
        "{reason}"
    );
    let models = yard.events(&id, &["model"]).await;
    assert_eq!(models[0].1["code"], "rejected", "{models:?}");
}
