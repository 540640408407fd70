//! Attacks by a loop: messages that no loop of ours sends.

use std::time::{Duration, Instant};

use sandyard_protocol::{
    DeskRefusal, DeskReply, DeskRequest, GuestRequest, JournalEntry, ModelEvent, ModelFailureCode,
    ModelUsage, Speaker, StopReason, TaskBudget, limits,
};
use sandyard_server::app::JobState;
use sandyard_testkit::{OpenDesk, question, task};

use crate::yard::{TaskYard, finished, keep, nudge, with_budget};

async fn refusal(desk: &mut OpenDesk, number: u64, entry: JournalEntry) -> DeskRefusal {
    match desk.append(number, entry).await.unwrap() {
        DeskReply::Refused { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_are_not_next_and_entries_of_the_host_are_refused() {
    let yard = TaskYard::new(&[], |mut it| async move {
        let mut desk = it.desk().await.unwrap();
        for number in [0, 1, 3, u64::MAX] {
            assert_eq!(refusal(&mut desk, number, nudge("x")).await, DeskRefusal::NumberTaken, "{number}");
        }
        keep(&mut desk, 2, nudge("two")).await;
        assert_eq!(refusal(&mut desk, 2, nudge("another two")).await, DeskRefusal::NumberTaken);
        let forged = [
            JournalEntry::Task { text: "another task".into() },
            JournalEntry::Said {
                text: "go on".into(),
                by: Speaker::Person,
                budget: Some(TaskBudget::default()),
            },
            JournalEntry::Answer {
                model: "mine".into(),
                text: "free".into(),
                calls: vec![],
                stop: StopReason::End,
                usage: ModelUsage::default(),
            },
        ];
        for entry in forged {
            assert_eq!(refusal(&mut desk, 3, entry).await, DeskRefusal::NotYours);
        }
        let long = nudge(&"x".repeat(limits::JOURNAL_ENTRY_BYTES));
        assert_eq!(refusal(&mut desk, 3, long).await, DeskRefusal::TooLarge);
        keep(&mut desk, 3, finished("done")).await;
        0
    })
    .await;
    let id = yard.schedule(task("do it")).await;
    assert_eq!(yard.ended(&id).await.state, JobState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_breaks_the_protocol_loses_that_stream_alone() {
    let yard = TaskYard::new(&[], |mut it| async move {
        // Not opened first, not a request, too many values, endless.
        let garbage: [serde_json::Value; 4] = [
            serde_json::json!({ "op": "append", "number": 1, "entry": { "kind": "nudge", "text": "x" } }),
            serde_json::json!({ "op": "fly" }),
            serde_json::json!({ "op": "open", "loop_version": vec![0; 300_000] }),
            serde_json::json!("x".repeat(8 * 1024 * 1024)),
        ];
        for message in garbage {
            let mut stream = it.open(&GuestRequest::Desk).await;
            // The host may be gone before all bytes are sent.
            let _ = stream.send_message(&message).await;
            assert!(!matches!(stream.receive().await, Ok(Some(_))), "no answer");
        }
        let mut desk = it.desk().await.unwrap();
        desk.say(&DeskRequest::Read { first: u64::MAX, count: u64::MAX, question: None }).await.unwrap();
        assert_eq!(desk.hear().await.unwrap(), DeskReply::Reading { entries: 0, recalled: None });
        desk.say(&DeskRequest::Read { first: 0, count: u64::MAX, question: None }).await.unwrap();
        assert_eq!(desk.hear().await.unwrap(), DeskReply::Reading { entries: 1, recalled: None });
        assert!(matches!(desk.hear().await.unwrap(), DeskReply::Entry(row) if row.number == 1));
        keep(&mut desk, 2, finished("done")).await;
        0
    })
    .await;
    let id = yard.schedule(task("do it")).await;
    assert_eq!(yard.ended(&id).await.state, JobState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_refused_entries_is_a_trickle_and_few_desks_are_open_at_once() {
    let yard = TaskYard::new(&[], |mut it| async move {
        let mut desk = it.desk().await.unwrap();
        let began = Instant::now();
        for _ in 0..10 {
            refusal(&mut desk, 99, nudge("x")).await;
        }
        assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
        let second = it.desk().await;
        assert!(second.is_ok(), "the one of the loop before may be left");
        assert!(it.desk().await.is_err(), "a third is not");
        keep(&mut desk, 2, finished("done")).await;
        0
    })
    .await;
    let id = yard.schedule(task("do it")).await;
    let status = yard.ended(&id).await;
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_budget_or_the_list_reach_no_model_however_often_they_come() {
    let yard = TaskYard::new(&[("One.", None), ("Two.", None)], |mut it| async move {
        let mut desk = it.desk().await.unwrap();
        it.ask(2).await;
        let began = Instant::now();
        for number in 3..9 {
            for model in [None, Some("openai/gpt-5"), Some("")] {
                let heard = it.call(&question(number, model)).await;
                let [ModelEvent::Failed(failure)] = &heard[..] else { panic!("{heard:?}") };
                let wanted =
                    if model.is_some() { ModelFailureCode::NotAllowed } else { ModelFailureCode::Budget };
                assert_eq!(failure.code, wanted);
            }
        }
        assert!(began.elapsed() >= Duration::from_millis(18 * 50), "{:?}", began.elapsed());
        keep(&mut desk, 3, finished("done")).await;
        0
    })
    .await;
    let id = yard.schedule(with_budget(TaskBudget { steps: Some(1), ..TaskBudget::default() })).await;
    let status = yard.ended(&id).await;
    assert_eq!(
        (status.state, status.tokens_in, status.tokens_out),
        (JobState::Succeeded, 100, 10),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn words_in_events_and_status_are_bounded() {
    let yard = TaskYard::new(&[], |mut it| async move {
        let mut desk = it.desk().await.unwrap();
        let long = "é".repeat(200_000);
        let began =
            JournalEntry::StepBegan { call: long.clone(), name: long.clone(), arguments: long.clone() };
        keep(&mut desk, 2, began).await;
        let ended = JournalEntry::StepEnded {
            call: long[..200_000].to_owned(),
            parts: vec![],
            failed: true,
            interrupted: false,
            took_ms: u64::MAX,
            files: vec!["../../etc/passwd".to_owned(); 10_000],
        };
        keep(&mut desk, 3, ended).await;
        keep(&mut desk, 4, finished(&long)).await;
        0
    })
    .await;
    let id = yard.schedule(task("do it")).await;
    let status = yard.ended(&id).await;
    assert!(status.summary.unwrap().len() <= 16 * 1024 + 3);
    let told = yard.events(&id, &["step", "tool", "file"]).await;
    assert_eq!(told.len(), 102);
    for (_, data) in &told {
        assert!(data.to_string().len() < 20_000, "{}", data.to_string().len());
    }
}
