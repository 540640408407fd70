//! Jobs that ask, and people who answer, do not answer, or speak unasked.

use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::{JournalEntry, JournalRow, Request, Speaker, WhyAsked};
use sandyard_server::app::{ErrorCode, FailureCode, JobState, NewJob, OnSilence, TaskOptions};
use sandyard_testkit::{Loop, task};
use tokio::sync::Semaphore;

use crate::yard::{TaskYard, finished, keep, nudge};

fn asked(question: &str) -> JournalEntry {
    JournalEntry::Asked { question: question.into(), why: WhyAsked::Ask }
}

/// Opens a yard whose loop asks a question and sums up the answers.
async fn asking() -> TaskYard {
    asking_with_leave(Arc::new(Semaphore::new(Semaphore::MAX_PERMITS))).await
}

/// Opens the same yard, whose loop ends only with a permit of `leave`.
async fn asking_with_leave(leave: Arc<Semaphore>) -> TaskYard {
    TaskYard::new(&[], move |it| ask_and_sum_up(it, Arc::clone(&leave))).await
}

async fn ask_and_sum_up(mut it: Loop, leave: Arc<Semaphore>) -> i32 {
    let mut desk = it.desk().await.unwrap();
    let mut number = desk.journal.len() as u64 + 1;
    if number == 2 {
        number = keep(&mut desk, 2, asked("Red or blue?")).await + 1;
    }
    // After a crash the answer may be in the journal already.
    let kept = desk.journal.iter().rev().find(|row| matches!(row.entry, JournalEntry::Said { .. })).cloned();
    let row = match kept {
        Some(row) => row,
        None => match desk.said().await {
            Ok(row) => row,
            Err(_) => return 9,
        },
    };
    let JournalEntry::Said { text, by, .. } = &row.entry else { panic!("{row:?}") };
    let by = if *by == Speaker::Person { "a person" } else { "nobody" };
    number = number.max(row.number + 1);
    leave.acquire().await.unwrap().forget();
    keep(&mut desk, number, finished(&format!("{by} said {text}"))).await;
    0
}

fn patient(ask_timeout_s: u64, on_silence: OnSilence) -> NewJob {
    let options = TaskOptions { ask_timeout_s: Some(ask_timeout_s), on_silence, ..TaskOptions::default() };
    NewJob { task: options, ..task("paint it") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_asks_waits_with_its_clocks_stopped_until_it_is_answered() {
    let yard = asking().await;
    let mut job = task("paint it");
    job.limits.timeout_s = Some(2);
    let id = yard.schedule(job).await;
    let waiting = yard.wait(&id, |status| status.state == JobState::Waiting).await;
    assert_eq!(waiting.question.as_deref(), Some("Red or blue?"));
    // Longer than its whole time, and than what the host gives beyond it would be if it counted.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(yard.wait(&id, |_| true).await.state, JobState::Waiting);
    yard.yard.reply(&yard.job(&id).await, "Blue.".into(), None).await.unwrap();
    let status = yard.ended(&id).await;
    assert_eq!(status.summary.as_deref(), Some("a person said Blue."), "{status:?}");
    assert_eq!((status.state, status.question), (JobState::Succeeded, None));
    let states = yard.events(&id, &["state", "said"]).await;
    let story: Vec<String> = states
        .iter()
        .map(|(kind, data)| match data["question"].as_str() {
            Some(question) => format!("{}: {question}", data["state"].as_str().unwrap()),
            None => data["state"].as_str().unwrap_or(kind).to_owned(),
        })
        .collect();
    let wanted = [
        "queued",
        "starting",
        "running",
        "waiting: Red or blue?",
        "running",
        "said",
        "finishing",
        "succeeded",
    ];
    assert_eq!(story, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guest_is_told_when_the_clocks_stand_and_how_much_time_is_left() {
    let leave = Arc::new(Semaphore::new(0));
    let yard = asking_with_leave(Arc::clone(&leave)).await;
    let id = yard.schedule(task("paint it")).await;
    asked_of_guest(&yard, |request| (*request == Request::PauseJob).then_some(())).await;
    yard.yard.reply(&yard.job(&id).await, "Red.".into(), None).await.unwrap();
    let resumed = |request: &Request| match request {
        Request::ResumeJob { timeout_ms } => Some(*timeout_ms),
        _ => None,
    };
    let left = asked_of_guest(&yard, resumed).await;
    assert!((50_000..=60_000).contains(&left), "{left}");
    leave.add_permits(1);
    assert_eq!(yard.ended(&id).await.state, JobState::Succeeded);
}

/// Waits for a request to the guest.
async fn asked_of_guest<T>(yard: &TaskYard, wanted: impl Fn(&Request) -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let requests = yard.driver.requests();
        if let Some(found) = requests.iter().find_map(&wanted) {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "{requests:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_outlives_the_server_and_is_answered_to_the_next() {
    let yard = TaskYard::new(&[], |mut it| async move {
        loop {
            let Ok(mut desk) = it.desk().await else { continue };
            let number = desk.journal.len() as u64 + 1;
            let asked_before = desk.journal.iter().any(|row| matches!(row.entry, JournalEntry::Asked { .. }));
            if !asked_before && desk.append(number, asked("Still there?")).await.is_err() {
                continue;
            }
            let is_answer = |row: &&JournalRow| matches!(row.entry, JournalEntry::Said { .. });
            let number = match desk.journal.iter().find(is_answer).map(|row| row.number) {
                Some(number) => Some(number),
                None => desk.said().await.ok().map(|row| row.number),
            };
            if let Some(number) = number {
                keep(&mut desk, number + 1, finished("answered")).await;
                return 0;
            }
        }
    })
    .await;
    let id = yard.schedule(task("paint it")).await;
    yard.wait(&id, |status| status.state == JobState::Waiting).await;
    let yard = yard.crash_and_restart().await;
    let status = yard.wait(&id, |_| true).await;
    assert_eq!((status.state, status.question.as_deref()), (JobState::Waiting, Some("Still there?")));
    yard.yard.reply(&yard.job(&id).await, "Yes.".into(), None).await.unwrap();
    assert_eq!(yard.ended(&id).await.summary.as_deref(), Some("answered"));
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_a_job_or_lets_it_go_on_as_it_was_told() {
    let yard = asking().await;
    let id = yard.schedule(patient(1, OnSilence::End)).await;
    let status = yard.ended(&id).await;
    assert_eq!((status.state, status.error.unwrap().code), (JobState::TimedOut, FailureCode::NoAnswer));
    assert_eq!(status.reason.as_deref(), Some("nobody answered its question within 1 s"));
    assert!(yard.yard.download(&yard.job(&id).await).await.is_ok(), "the work is kept");
    let refused = yard.yard.reply(&yard.job(&id).await, "Too late.".into(), None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotWaiting);

    let id = yard.schedule(patient(1, OnSilence::GoOn)).await;
    let status = yard.ended(&id).await;
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    assert!(status.summary.unwrap().starts_with("nobody said Nobody answered in time."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_can_be_cancelled() {
    let yard = asking().await;
    let id = yard.schedule(task("paint it")).await;
    yard.wait(&id, |status| status.state == JobState::Waiting).await;
    yard.yard.cancel(&yard.job(&id).await).await.unwrap();
    let status = yard.ended(&id).await;
    assert_eq!((status.state, status.question), (JobState::Cancelled, None), "{:?}", status.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_hears_what_is_said_and_its_numbers_make_room() {
    let yard = TaskYard::new(&[("Hm.", None)], |mut it| async move {
        let mut desk = it.desk().await.unwrap();
        keep(&mut desk, 2, nudge("at work")).await;
        // Until the words are there: then it goes on as if it had not heard them yet.
        let said = desk.said().await.unwrap();
        assert_eq!(said.number, 3);
        assert_eq!(keep(&mut desk, 3, nudge("as if it were the third")).await, 4, "behind what was said");
        assert_eq!(keep(&mut desk, 3, nudge("as if it were the third")).await, 4, "again is the same");
        let heard = it.ask(5).await;
        assert!(heard.contains(&sandyard_protocol::ModelEvent::Kept { number: 5 }), "{heard:?}");
        keep(&mut desk, 6, finished("done")).await;
        0
    })
    .await;
    let id = yard.schedule(task("paint it")).await;
    yard.noted(&id, 1).await;
    yard.yard.reply(&yard.job(&id).await, "Use blue.".into(), None).await.unwrap();
    let status = yard.ended(&id).await;
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    let said = yard.events(&id, &["said"]).await;
    assert_eq!(said[0].1, serde_json::json!({ "text": "Use blue.", "by": "person" }));
}
