use bytes::Bytes;
use sandyard_protocol::{ModelUsage, Secret, Speaker, StopReason, WhyAsked, limits};

use super::*;
use crate::job::JobKind;
use crate::job::JobState;
use crate::job::apply::ChangeError;
use crate::job::samples::{entry, signer};
use crate::job::{ArtifactRow, Purpose, SpentRow, TaskRow, samples};
use crate::store::StoredKey;

const TTL_MS: u64 = 60_000;

fn job() -> InsertJob {
    let (request, row) = (samples::new_job(), samples::job_row());
    InsertJob {
        row,
        request: StoredRequest { job: request, files: Vec::new() },
        key: None,
        entry: entry(),
        queue: 100,
    }
}

fn claim(owner: &str) -> Claim {
    let changes = vec![
        Change::Incarnation { secret: Secret::new([8; 32]), purpose: Purpose::Run },
        Change::Move { to: JobState::Starting, reason: None },
    ];
    Claim { owner: owner.into(), ttl_ms: TTL_MS, changes }
}

async fn claimed(store: &SqliteStore) -> JobRow {
    match store.insert(job(), Some(claim("a"))).await.unwrap() {
        Inserted::New(row) => *row,
        other => panic!("{other:?}"),
    }
}

fn chunk(number: u64, offset: u64, text: &str) -> Change {
    Change::Output(ChunkRow {
        stream: OutputStream::Stdout,
        number,
        offset,
        length: text.len() as u64,
        inline: Some(Bytes::copy_from_slice(text.as_bytes())),
    })
}

fn to(state: JobState) -> Change {
    Change::Move { to: state, reason: None }
}

#[tokio::test]
async fn a_row_is_read_back_as_it_was_written() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let row = claimed(&store).await;
    let changes = vec![
        to(JobState::Running),
        chunk(0, 0, "hello"),
        Change::GuestSequence(4),
        Change::Usage(sandyard_sandbox::driver::Usage { cpu_s: 1.5, ..Default::default() }),
        Change::Ended { outcome: JobState::Succeeded, exit_code: Some(0), failure: None },
        to(JobState::Finishing),
        Change::Artifact(ArtifactRow { sha256: "00".into(), bytes: 22 }),
        to(JobState::Succeeded),
        Change::Closed,
    ];
    let written = store.commit(&row.fence(), changes).await.unwrap();
    drop(store);
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    assert_eq!(store.job(&row.id).await.unwrap(), Some(written));
    let kinds: Vec<String> =
        store.events(&row.id, 0, 100).await.unwrap().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, ["state", "state", "state", "stdout", "state", "state"]);
    assert_eq!(store.counts()[5], 1);
    assert_eq!(store.request(&row.id).await.unwrap().unwrap().job, job().request.job);
}

#[tokio::test]
async fn l6_a_write_of_an_earlier_owner_is_refused_and_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let row = claimed(&store).await;
    store.release_all("a").await.unwrap();
    let taken = store.claim_orphans("b", TTL_MS).await.unwrap();
    assert_eq!(taken.iter().map(|row| row.epoch).collect::<Vec<_>>(), [2]);
    let refused = store.commit(&row.fence(), vec![to(JobState::Running)]).await.unwrap_err();
    assert!(refused.is_stale());
    assert!(store.requeue(&row.fence(), "full".into()).await.unwrap_err().is_stale());
    assert!(store.remove(&row.fence()).await.unwrap_err().is_stale());
    assert_eq!(store.job(&row.id).await.unwrap().unwrap(), taken[0]);
    assert!(store.renew("a", TTL_MS).await.unwrap().is_empty());
    assert_eq!(store.renew("b", TTL_MS).await.unwrap(), [taken[0].fence()]);
}

#[tokio::test]
async fn a_lease_that_ran_out_can_not_be_renewed() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let claim = Claim { ttl_ms: 0, ..claim("a") };
    store.insert(job(), Some(claim)).await.unwrap();
    assert!(store.renew("a", TTL_MS).await.unwrap().is_empty());
    assert_eq!(store.claim_orphans("a", TTL_MS).await.unwrap().len(), 1);
    assert!(store.claim_orphans("b", TTL_MS).await.unwrap().is_empty(), "it is held now");
}

#[tokio::test]
async fn a_failing_write_undoes_itself_alone() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let (good, bad) = (claimed(&store).await, claimed(&store).await);
    let (good_fence, bad_fence) = (good.fence(), bad.fence());
    let (first, second, third) = tokio::join!(
        store.commit(&good_fence, vec![to(JobState::Running)]),
        store.commit(&bad_fence, vec![chunk(0, 0, "x"), to(JobState::Succeeded)]),
        store.commit(&bad_fence, vec![to(JobState::Running), chunk(0, 5, "gap")]),
    );
    assert_eq!(first.unwrap().state, JobState::Running);
    assert!(matches!(second, Err(StoreError::Change(ChangeError::IllegalMove { .. }))));
    assert!(matches!(third, Err(StoreError::Change(ChangeError::OutputGap { .. }))));
    assert_eq!(store.job(&bad.id).await.unwrap().unwrap(), bad);
    assert_eq!(store.events(&bad.id, 0, 10).await.unwrap().len(), 2);
    assert_eq!(store.counts()[..3], [0, 1, 1]);
}

#[tokio::test]
async fn l9_a_cancel_of_a_queued_job_ends_it_and_keeps_it_from_being_claimed() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let Inserted::New(row) = store.insert(job(), None).await.unwrap() else { panic!("not new") };
    let ended = store.request_cancel(&row.id, entry()).await.unwrap().unwrap();
    assert_eq!((ended.state, ended.open), (JobState::Cancelled, false));
    assert!(store.claim_queued(&row.id, claim("a")).await.unwrap().is_none());
    assert_eq!(store.request_cancel(&row.id, entry()).await.unwrap().unwrap(), ended, "twice is once");
}

#[tokio::test]
async fn a_deleted_job_is_unknown_at_once_and_gone_at_the_end() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let mut insert = job();
    insert.key = Some(StoredKey { key_sha256: [1; 32], body_sha256: [2; 32] });
    let Inserted::New(row) = store.insert(insert, None).await.unwrap() else { panic!("not new") };
    store.request_delete(&row.id, entry()).await.unwrap().unwrap();
    assert_eq!(store.job(&row.id).await.unwrap(), None);
    assert_eq!(store.request_delete(&row.id, entry()).await.unwrap(), None);
    assert!(store.claim_queued(&row.id, claim("a")).await.unwrap().is_none());
    let taken = store.claim_orphans("a", TTL_MS).await.unwrap();
    store.remove(&taken[0].fence()).await.unwrap();
    assert_eq!(store.any_job(&row.id).await.unwrap(), None);
    assert_eq!(store.counts(), [0; 9]);
    assert!(store.all_ids().await.unwrap().is_empty());
}

#[tokio::test]
async fn r21_the_queries_of_a_status_use_an_index() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    for query in [
        columns::select_jobs!("id = 'x'"),
        "SELECT number FROM chunks WHERE job = 1 AND stream = 1 ORDER BY number DESC",
        "SELECT id FROM events WHERE job = 1 AND id > 5 ORDER BY id LIMIT 10",
        columns::select_jobs!("state = 'queued' AND delete_requested = 0 ORDER BY number LIMIT 1"),
    ] {
        let plan: Vec<String> = store
            .read(|connection| {
                let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}"))?;
                let lines = statement.query_map([], |row| row.get(3))?.collect::<Result<_, _>>()?;
                Ok(lines)
            })
            .unwrap();
        let plan = plan.join("; ");
        assert!(
            plan.contains("SEARCH") && !plan.contains("SCAN") && !plan.contains("TEMP B-TREE"),
            "{query}: {plan}"
        );
    }
}

fn nudge(text: &str) -> Box<JournalEntry> {
    Box::new(JournalEntry::Nudge { text: text.into() })
}

fn said(text: &str) -> Box<JournalEntry> {
    Box::new(JournalEntry::Said { text: text.into(), by: Speaker::Person, budget: None })
}

/// A task that runs.
async fn running_task(store: &SqliteStore) -> JobRow {
    let mut insert = job();
    insert.row.kind = JobKind::Task;
    insert.row.task = Some(TaskRow::default());
    insert.request.job.kind = JobKind::Task;
    insert.request.job.code = "build it".into();
    let Inserted::New(row) = store.insert(insert, Some(claim("a"))).await.unwrap() else { panic!() };
    store.commit(&row.fence(), vec![to(JobState::Running)]).await.unwrap()
}

#[tokio::test]
async fn entries_come_where_they_are_expected_behind_what_was_said_and_once() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let row = running_task(&store).await;
    let fence = row.fence();
    let append = |number, text: &'static str| store.append(&fence, number, nudge(text));
    let kept = |number| Appended::Kept { number };
    assert_eq!(append(2, "two").await.unwrap(), kept(2));
    assert_eq!(append(2, "two").await.unwrap(), kept(2), "once");
    assert_eq!(append(2, "other").await.unwrap(), Appended::NumberTaken);
    assert_eq!(append(4, "early").await.unwrap(), Appended::NumberTaken);
    for text in ["a", "b"] {
        assert!(matches!(store.say(&row.id, said(text), entry()).await.unwrap(), Said::Kept(_)));
    }
    assert_eq!(append(3, "three").await.unwrap(), kept(5));
    assert_eq!(append(3, "three").await.unwrap(), kept(5));
    let all = store.journal(row.number, 1, 100, usize::MAX).await.unwrap();
    assert_eq!(all.iter().map(|row| row.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(all[0].entry, JournalEntry::Task { text: "build it".into() });
    assert_eq!((all[4].incarnation, &all[4].entry), (1, nudge("three").as_ref()));
    assert_eq!(
        store.journal(row.number, 2, 100, 1).await.unwrap().len(),
        1,
        "bytes end a page after the first"
    );
    assert_eq!(store.journal(row.number, 2, 2, usize::MAX).await.unwrap().len(), 2);

    let stale = Fence { epoch: row.epoch + 1, ..row.fence() };
    assert!(store.append(&stale, 6, nudge("late")).await.unwrap_err().is_stale());
    let ends = vec![to(JobState::Finishing)];
    store.commit(&row.fence(), ends).await.unwrap();
    assert_eq!(append(6, "too late").await.unwrap(), Appended::Ended);
    assert_eq!(append(2, "two").await.unwrap(), kept(2), "what was kept stays kept");
    assert!(matches!(store.say(&row.id, said("c"), entry()).await.unwrap(), Said::Deaf(_)));
}

#[tokio::test]
async fn an_answer_and_what_was_spent_are_one_commit_and_survive() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let row = running_task(&store).await;
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
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let row = store.job(&row.id).await.unwrap().unwrap();
    let task = row.task.clone().unwrap();
    assert_eq!(task.spent, SpentRow { tokens_in: 200, ..spent }, "it never falls");
    assert_eq!(store.journal(row.number, 2, 9, usize::MAX).await.unwrap()[0].entry, answer);
    assert!(row.journal_bytes > 0 && store.retained().await.unwrap().bytes == row.kept_bytes());
}

#[tokio::test]
async fn a_journal_has_an_end_and_room_for_last_words() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let row = running_task(&store).await;
    // As if so much had been written before.
    let full = format!("UPDATE jobs SET journal_bytes = {}", limits::JOURNAL_BYTES);
    store.writer().unwrap().write(move |writing| Ok(writing.connection.execute_batch(&full)?)).await.unwrap();
    assert_eq!(store.append(&row.fence(), 2, nudge("more")).await.unwrap(), Appended::Full);
    assert!(matches!(store.say(&row.id, said("more"), entry()).await.unwrap(), Said::Deaf(_)));
    let last = Box::new(JournalEntry::GaveUp { reason: "no room".into() });
    assert_eq!(store.append(&row.fence(), 2, last).await.unwrap(), Appended::Kept { number: 2 });
}

#[tokio::test]
async fn a_question_moves_the_job_and_an_answer_moves_it_back() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let row = running_task(&store).await;
    let asked = Box::new(JournalEntry::Asked { question: "?".into(), why: WhyAsked::Ask });
    store.append(&row.fence(), 2, asked.clone()).await.unwrap();
    assert_eq!(store.append(&row.fence(), 2, asked).await.unwrap(), Appended::Kept { number: 2 });
    let waiting = store.job(&row.id).await.unwrap().unwrap();
    assert_eq!(waiting.state, JobState::Waiting);
    let Said::Kept(answered) = store.say(&row.id, said("!"), entry()).await.unwrap() else { panic!() };
    assert_eq!((answered.state, answered.task.unwrap().question), (JobState::Running, None));
    assert_eq!(store.counts()[2..4], [1, 0], "running and waiting are counted");
}

/// The whole audit of a job as text, with its head.
async fn audit_text(store: &SqliteStore, id: &JobId) -> String {
    let row = store.any_job(id).await.unwrap().unwrap();
    let lines = store.audit(row.number, 1, usize::MAX >> 1).await.unwrap();
    let head = crate::job::audit_head(&row).unwrap();
    lines.into_iter().map(|line| line.text + "\n").collect::<String>() + &head.line()
}

#[tokio::test]
async fn an_audit_is_one_chain_whoever_writes_and_only_the_owner_writes_as_owner() {
    let data = tempfile::tempdir().unwrap();
    let key = signer();
    let store = SqliteStore::open(data.path(), key.clone()).unwrap();
    let row = claimed(&store).await;
    let noted = |count: usize| vec![entry(); count];
    let stale = store.note(&row.id, Some(row.epoch + 1), noted(1)).await.unwrap_err();
    assert!(stale.is_stale());
    // Writers of both weights at once, which the thread puts into transactions of their own.
    let light =
        futures_util::future::join_all((0..50).map(|_| store.note(&row.id, Some(row.epoch), noted(2))));
    let anyone = futures_util::future::join_all((0..50).map(|_| store.note(&row.id, None, noted(1))));
    let fence = row.fence();
    let synced =
        futures_util::future::join_all((0..50).map(|_| store.commit(&fence, vec![Change::Audit(entry())])));
    let (light, anyone, synced) = tokio::join!(light, anyone, synced);
    assert!(light.into_iter().chain(anyone).all(|noted| noted.unwrap().is_some()));
    assert!(synced.into_iter().all(|row| row.is_ok()));
    let text = audit_text(&store, &row.id).await;
    let verdict = crate::audit::verify_lines(&text, Some(key.public())).unwrap();
    assert!(verdict.faults.is_empty(), "{:?}", verdict.faults);
    // The first record, the claim's state, and what was written above.
    assert_eq!(verdict.records, 2 + 100 + 50 + 50);
    drop(store);
    let store = SqliteStore::open(data.path(), key.clone()).unwrap();
    assert_eq!(audit_text(&store, &row.id).await, text, "what was noted lightly is there after a restart");
    store.request_delete(&row.id, entry()).await.unwrap().unwrap();
    assert_eq!(store.note(&row.id, None, noted(1)).await.unwrap(), None, "a deleted job is unknown");
}

#[tokio::test]
async fn a_refused_change_leaves_no_record() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), signer()).unwrap();
    let row = claimed(&store).await;
    let before = audit_text(&store, &row.id).await;
    let illegal = vec![Change::Audit(entry()), to(JobState::Queued), to(JobState::Succeeded)];
    assert!(store.commit(&row.fence(), illegal).await.is_err());
    assert_eq!(audit_text(&store, &row.id).await, before);
}
