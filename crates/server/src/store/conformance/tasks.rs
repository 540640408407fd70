//! Tasks: their journals, what they spend, and what people say to them.

use sandyard_protocol::{JournalEntry, ModelUsage, Speaker, StopReason, WhyAsked};

use super::{StoreHarness, claim, claimed, inserted, new_job, row_of, to};
use crate::job::samples::entry;
use crate::job::{Change, JobFence, JobKind, JobRow, JobState, SpentRow, TaskRow};
use crate::store::{Appended, Said, Store};

fn nudge(text: &str) -> Box<JournalEntry> {
    Box::new(JournalEntry::Nudge { text: text.into() })
}

fn said(text: &str) -> Box<JournalEntry> {
    Box::new(JournalEntry::Said { text: text.into(), by: Speaker::Person, budget: None })
}

/// A task that runs.
pub(super) async fn running_task(store: &dyn Store) -> JobRow {
    let mut insert = new_job();
    insert.row.kind = JobKind::Task;
    insert.row.task = Some(TaskRow::default());
    insert.request.job.kind = JobKind::Task;
    insert.request.job.code = "build it".into();
    let row = inserted(store.insert(insert, Some(claim("a"))).await.unwrap());
    store.commit(&row.fence(), vec![to(JobState::Running)]).await.unwrap()
}

pub(crate) async fn entries_come_where_they_are_expected_behind_words_and_once(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = running_task(store.as_ref()).await;
    let fence = row.fence();
    let append = |number, text: &'static str| store.append(&fence, number, nudge(text));
    let kept = |number| Appended::Kept { number };
    assert_eq!(append(2, "two").await.unwrap(), kept(2));
    assert_eq!(append(2, "two").await.unwrap(), kept(2), "once");
    assert_eq!(append(2, "other").await.unwrap(), Appended::NumberTaken);
    assert_eq!(append(4, "early").await.unwrap(), Appended::NumberTaken);
    assert_eq!(append(0, "none").await.unwrap(), Appended::NumberTaken);
    for text in ["a", "b"] {
        assert!(matches!(store.say(&row.id, said(text), entry()).await.unwrap(), Said::Kept(_)));
    }
    assert_eq!(append(3, "three").await.unwrap(), kept(5));
    assert_eq!(append(3, "three").await.unwrap(), kept(5));
    let all = store.journal(row.number, 1, 100, usize::MAX).await.unwrap();
    assert_eq!(all.iter().map(|row| row.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(all[0].entry, JournalEntry::Task { text: "build it".into() });
    assert_eq!((all[4].incarnation, &all[4].entry), (1, nudge("three").as_ref()));
    let page = store.journal(row.number, 2, 100, 1).await.unwrap();
    assert_eq!(page.len(), 1, "bytes end a page after the first");
    assert_eq!(store.journal(row.number, 2, 2, usize::MAX).await.unwrap().len(), 2);

    let stale = JobFence { epoch: row.epoch + 1, ..row.fence() };
    assert!(store.append(&stale, 6, nudge("late")).await.unwrap_err().is_stale());
    store.commit(&row.fence(), vec![to(JobState::Finishing)]).await.unwrap();
    assert_eq!(append(6, "too late").await.unwrap(), Appended::Ended);
    assert_eq!(append(2, "two").await.unwrap(), kept(2), "what was kept stays kept");
    assert!(matches!(store.say(&row.id, said("c"), entry()).await.unwrap(), Said::Deaf(_)));
}

pub(crate) async fn an_answer_and_its_price_are_one_commit_and_survive(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = running_task(store.as_ref()).await;
    let spent = SpentRow { steps: 1, tokens_in: 100, tokens_out: 10, money: 7 };
    let answer = JournalEntry::Answer {
        model: "m".into(),
        text: "Yes.".into(),
        calls: vec![],
        stop: StopReason::End,
        usage: ModelUsage::default(),
    };
    let changes = vec![Change::Spent(spent), Change::Journal(Box::new(answer.clone()))];
    store.commit(&row.fence(), changes).await.unwrap();
    let less = SpentRow { steps: 0, tokens_in: 200, tokens_out: 5, money: 0 };
    store.commit(&row.fence(), vec![Change::Spent(less)]).await.unwrap();
    drop(store);
    let store = harness.open();
    let row = store.job(&row.id).await.unwrap().unwrap();
    let task = row.task.clone().unwrap();
    assert_eq!(task.spent, SpentRow { tokens_in: 200, ..spent }, "it never falls");
    assert_eq!(store.journal(row.number, 2, 9, usize::MAX).await.unwrap()[0].entry, answer);
    assert!(row.journal_bytes > 0 && store.retained().await.unwrap().bytes == row.kept_bytes());
}

pub(crate) async fn a_question_moves_the_job_and_an_answer_moves_it_back(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = running_task(store.as_ref()).await;
    let asked = Box::new(JournalEntry::Asked { question: "?".into(), why: WhyAsked::Ask });
    store.append(&row.fence(), 2, asked.clone()).await.unwrap();
    assert_eq!(store.append(&row.fence(), 2, asked).await.unwrap(), Appended::Kept { number: 2 });
    assert_eq!(row_of(store.as_ref(), &row.id).await.state, JobState::Waiting);
    let Said::Kept(answered) = store.say(&row.id, said("!"), entry()).await.unwrap() else { panic!() };
    assert_eq!((answered.state, answered.task.unwrap().question), (JobState::Running, None));
    assert_eq!(store.counts()[2..4], [1, 0], "running and waiting are counted");
}

pub(crate) async fn words_are_heard_by_running_tasks_only(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    assert!(matches!(store.say(&row.id, said("hi"), entry()).await.unwrap(), Said::Deaf(_)));
    let unknown = crate::job::random_id().unwrap();
    assert_eq!(store.say(&unknown, said("hi"), entry()).await.unwrap(), Said::Unknown);
    let task = running_task(store.as_ref()).await;
    store.request_cancel(&task.id, entry()).await.unwrap().unwrap();
    assert!(matches!(store.say(&task.id, said("wait"), entry()).await.unwrap(), Said::Deaf(_)));
    store.request_delete(&task.id, entry()).await.unwrap().unwrap();
    assert_eq!(store.say(&task.id, said("hi"), entry()).await.unwrap(), Said::Unknown);
}
