//! Jobs: inserted once, changed by commits, listed, watched, ended, deleted.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use sandyard_api::FrameEvent;
use sandyard_api::JobIdPrefix;
use sandyard_protocol::OutputStream;

use super::{StoreHarness, TTL_MS, claim, claimed, inserted, new_job, over, queued, row_of, to};
use crate::job::apply::ChangeError;
use crate::job::samples::entry;
use crate::job::{ArtifactRow, Change, ChunkRow, InputFile, JobFilter, JobKind, JobState, RecordingRow};
use crate::store::{Inserted, StoreError, StoredKey};

fn chunk(number: u64, offset: u64, text: &str) -> Change {
    Change::Output(ChunkRow {
        stream: OutputStream::Stdout,
        number,
        offset,
        length: text.len() as u64,
        inline: Some(Bytes::copy_from_slice(text.as_bytes())),
    })
}

pub(crate) async fn a_row_is_read_back_as_it_was_written(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let changes = vec![
        to(JobState::Running),
        chunk(0, 0, "hello"),
        Change::GuestSequence(4),
        Change::Usage(sandyard_sandbox::driver::Usage { cpu_s: 1.5, ..Default::default() }),
        Change::EgressBytes(9),
        Change::Frame { frame: FrameEvent { picture: 1, width: 8, height: 8 }, bytes: 70 },
        Change::Frame { frame: FrameEvent { picture: 1, width: 8, height: 8 }, bytes: 0 },
        Change::Ended { outcome: JobState::Succeeded, exit_code: Some(0), failure: None },
        to(JobState::Finishing),
        Change::Artifact(ArtifactRow { sha256: "00".into(), bytes: 22 }),
        to(JobState::Succeeded),
        Change::Closed,
    ];
    let written = store.commit(&row.fence(), changes).await.unwrap();
    drop(store);
    let store = harness.open();
    assert_eq!(written.recording, RecordingRow { moments: 2, pictures: 1, bytes: 70 });
    assert_eq!(written.kept_bytes(), store.retained().await.unwrap().bytes);
    assert_eq!(store.job(&row.id).await.unwrap(), Some(written));
    let events = store.events(&row.id, 0, 100).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["state", "state", "state", "stdout", "frame", "frame", "state", "state"]);
    let frames = store.events_of_kind(&row.id, "frame", events[4].id, 10).await.unwrap();
    assert_eq!(frames, [events[5].clone()]);
    assert_eq!(store.counts()[5], 1);
    assert_eq!(store.request(&row.id).await.unwrap().unwrap().job, new_job().request.job);
}

pub(crate) async fn the_same_key_makes_one_job(harness: &impl StoreHarness) {
    let store = harness.open();
    let with_key = |key: u8, body: u8| {
        let key = Some(StoredKey { key_sha256: [key; 32], body_sha256: [body; 32] });
        store.insert(crate::store::InsertJob { key, ..new_job() }, None)
    };
    let first = inserted(with_key(1, 1).await.unwrap());
    assert_eq!(with_key(1, 1).await.unwrap(), Inserted::Repeated(Box::new(first.clone())));
    assert_eq!(with_key(1, 2).await.unwrap(), Inserted::KeyTaken);
    assert!(matches!(with_key(2, 1).await.unwrap(), Inserted::New(_)));
    assert_eq!(store.all_ids().await.unwrap().len(), 2);
    assert_eq!(row_of(store.as_ref(), &first.id).await, first);
}

pub(crate) async fn a_full_queue_refuses_what_is_not_claimed(harness: &impl StoreHarness) {
    let store = harness.open();
    let job = || crate::store::InsertJob { queue: 1, ..new_job() };
    inserted(store.insert(job(), None).await.unwrap());
    assert_eq!(store.insert(job(), None).await.unwrap(), Inserted::QueueFull);
    inserted(store.insert(job(), Some(claim("a"))).await.unwrap());
    assert_eq!(store.counts()[..2], [1, 1]);
}

pub(crate) async fn event_ids_have_no_gap_and_refused_changes_leave_nothing(harness: &impl StoreHarness) {
    let store = harness.open();
    let (good, bad) = (claimed(store.as_ref()).await, claimed(store.as_ref()).await);
    let (good_fence, bad_fence) = (good.fence(), bad.fence());
    let (first, second, third) = tokio::join!(
        store.commit(&good_fence, vec![to(JobState::Running)]),
        store.commit(&bad_fence, vec![chunk(0, 0, "x"), to(JobState::Succeeded)]),
        store.commit(&bad_fence, vec![to(JobState::Running), chunk(0, 5, "gap")]),
    );
    assert_eq!(first.unwrap().state, JobState::Running);
    assert!(matches!(second, Err(StoreError::Change(ChangeError::IllegalMove { .. }))));
    assert!(matches!(third, Err(StoreError::Change(ChangeError::OutputGap { .. }))));
    assert_eq!(row_of(store.as_ref(), &bad.id).await, bad);
    assert_eq!(store.counts()[..3], [0, 1, 1]);
    store.commit(&bad_fence, vec![to(JobState::Running), chunk(0, 0, "x")]).await.unwrap();
    let ids = |events: Vec<crate::job::EventRow>| events.iter().map(|event| event.id).collect::<Vec<_>>();
    assert_eq!(ids(store.events(&bad.id, 0, 10).await.unwrap()), [1, 2, 3, 4]);
    assert_eq!(ids(store.events(&bad.id, 2, 1).await.unwrap()), [3]);
    let states = store.events_of_kind(&bad.id, "state", 0, 10).await.unwrap();
    assert!(!states.is_empty() && states.iter().all(|event| event.kind == "state"));
    assert!(store.events_of_kind(&bad.id, "frame", 0, 10).await.unwrap().is_empty());
    assert!(store.events(&bad.id, u64::MAX, 10).await.unwrap().is_empty());
}

pub(crate) async fn output_is_found_by_chunk_and_by_offset(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let changes = vec![chunk(0, 0, "abc"), chunk(1, 3, "de"), chunk(2, 5, "f")];
    let row = store.commit(&row.fence(), changes).await.unwrap();
    let numbers = |chunks: Vec<ChunkRow>| chunks.iter().map(|chunk| chunk.number).collect::<Vec<_>>();
    let stdout = OutputStream::Stdout;
    assert_eq!(numbers(store.chunks(row.number, stdout, 1, 10).await.unwrap()), [1, 2]);
    assert_eq!(numbers(store.chunks(row.number, stdout, 0, 2).await.unwrap()), [0, 1]);
    assert_eq!(numbers(store.chunks_after(row.number, stdout, 4).await.unwrap()), [1, 2]);
    assert_eq!(numbers(store.chunks_after(row.number, stdout, 6).await.unwrap()), [0; 0]);
    assert!(store.chunks(row.number, OutputStream::Stderr, 0, 10).await.unwrap().is_empty());
    let first = &store.chunks(row.number, stdout, 0, 1).await.unwrap()[0];
    assert_eq!(first.inline.as_deref(), Some(&b"abc"[..]));
}

pub(crate) async fn dropped_chunks_are_gone(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let dropped = Change::Dropped { stream: OutputStream::Stdout, first: 1, end: 2, bytes: 2 };
    let changes = vec![chunk(0, 0, "abc"), chunk(1, 3, "de"), chunk(2, 5, "f"), dropped];
    let row = store.commit(&row.fence(), changes).await.unwrap();
    let left = store.chunks(row.number, OutputStream::Stdout, 0, 10).await.unwrap();
    assert_eq!(left.iter().map(|chunk| chunk.number).collect::<Vec<_>>(), [0, 2]);
    assert_eq!((row.stdout.bytes, row.stdout.dropped), (6, 2));
}

pub(crate) async fn lists_are_paged_newest_first_and_filtered(harness: &impl StoreHarness) {
    let store = harness.open();
    let (first, second) = (queued(store.as_ref()).await, claimed(store.as_ref()).await);
    let third = queued(store.as_ref()).await;
    store.request_delete(&third.id, entry()).await.unwrap().unwrap();
    let everything = JobFilter::default();
    let ids = |rows: Vec<crate::job::JobRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    let all = ids(store.list(&everything, None, 10).await.unwrap());
    assert_eq!(all, [second.id.clone(), first.id.clone()]);
    assert_eq!(ids(store.list(&everything, None, 1).await.unwrap()), std::slice::from_ref(&second.id));
    assert_eq!(
        ids(store.list(&everything, Some(second.number), 10).await.unwrap()),
        std::slice::from_ref(&first.id)
    );
    let starting = JobFilter { states: vec![JobState::Starting], kind: Some(JobKind::Shell) };
    assert_eq!(ids(store.list(&starting, None, 10).await.unwrap()), [second.id]);
    let tasks = JobFilter { states: Vec::new(), kind: Some(JobKind::Task) };
    assert!(store.list(&tasks, None, 10).await.unwrap().is_empty());
}

pub(crate) async fn a_cancel_of_a_queued_job_ends_it(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = queued(store.as_ref()).await;
    let ended = store.request_cancel(&row.id, entry()).await.unwrap().unwrap();
    assert_eq!((ended.state, ended.open), (JobState::Cancelled, false));
    assert!(ended.epoch > row.epoch, "an owner that is about to take it is too late");
    assert!(store.claim_queued(&row.id, claim("a")).await.unwrap().is_none());
    assert_eq!(store.request_cancel(&row.id, entry()).await.unwrap().unwrap(), ended, "twice is once");
    let unknown = crate::job::random_id().unwrap();
    assert_eq!(store.request_cancel(&unknown, entry()).await.unwrap(), None);
}

pub(crate) async fn a_cancel_of_a_running_job_is_a_request(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let asked = store.request_cancel(&row.id, entry()).await.unwrap().unwrap();
    assert_eq!((asked.state, asked.cancel_requested), (JobState::Starting, true));
    assert_eq!(asked.epoch, row.epoch, "its owner carries it out");
}

pub(crate) async fn a_deleted_job_is_unknown_at_once_and_gone_at_the_end(harness: &impl StoreHarness) {
    let store = harness.open();
    let key = Some(StoredKey { key_sha256: [1; 32], body_sha256: [2; 32] });
    let job = || crate::store::InsertJob { key: key.clone(), ..new_job() };
    let row = inserted(store.insert(job(), None).await.unwrap());
    let marked = store.request_delete(&row.id, entry()).await.unwrap().unwrap();
    assert!(marked.delete_requested && marked.cancel_requested && marked.open);
    assert_eq!(store.job(&row.id).await.unwrap(), None);
    assert_eq!(store.request_delete(&row.id, entry()).await.unwrap(), None);
    assert!(store.claim_queued(&row.id, claim("a")).await.unwrap().is_none());
    assert!(store.queued(0, 10).await.unwrap().is_empty());
    let taken = store.claim_orphans("a", TTL_MS).await.unwrap();
    store.remove(&taken[0].fence()).await.unwrap();
    assert_eq!(store.any_job(&row.id).await.unwrap(), None);
    assert_eq!((store.counts(), store.retained().await.unwrap().bytes), ([0; 9], 0));
    assert!(store.all_ids().await.unwrap().is_empty());
    assert!(store.events(&row.id, 0, 10).await.unwrap().is_empty());
    assert!(matches!(store.insert(job(), None).await.unwrap(), Inserted::New(_)), "its key is free");
}

pub(crate) async fn a_watch_wakes_after_a_commit_of_its_job(harness: &impl StoreHarness) {
    let store = harness.open();
    let (row, other) = (claimed(store.as_ref()).await, claimed(store.as_ref()).await);
    let mut watch = store.watch(&row.id);
    store.commit(&other.fence(), vec![to(JobState::Running)]).await.unwrap();
    assert!(watch.changed().now_or_never().is_none(), "another job's commit wakes nobody");
    store.commit(&row.fence(), vec![to(JobState::Running)]).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), watch.changed()).await.unwrap();
    store.request_delete(&row.id, entry()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), watch.changed()).await.unwrap();
    store.remove(&row.fence()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), watch.changed()).await.unwrap();
}

pub(crate) async fn ended_jobs_are_counted_and_sorted_by_their_end(harness: &impl StoreHarness) {
    let store = harness.open();
    claimed(store.as_ref()).await;
    let (first, second) = (over(store.as_ref()).await, over(store.as_ref()).await);
    let ended: Vec<_> = store.ended().await.unwrap().into_iter().map(|job| job.id).collect();
    assert_eq!(ended, [first.id.clone(), second.id]);
    let retained = store.retained().await.unwrap();
    assert_eq!(retained.oldest_ms, first.finished_ms);
    let mut bytes = 0;
    for id in store.all_ids().await.unwrap() {
        bytes += row_of(store.as_ref(), &id).await.kept_bytes();
    }
    assert_eq!(retained.bytes, bytes);
    assert_eq!(store.open_jobs().await.unwrap().len(), 1);
    drop(store);
    let store = harness.open();
    assert_eq!((store.counts()[1], store.counts()[5]), (1, 2));
    assert_eq!(store.retained().await.unwrap(), retained);
}

pub(crate) async fn request_files_go_with_the_end(harness: &impl StoreHarness) {
    let store = harness.open();
    let mut job = new_job();
    job.request.files = vec![InputFile { path: "a/b".into(), bytes: b"text".to_vec() }];
    let row = inserted(store.insert(job.clone(), Some(claim("a"))).await.unwrap());
    assert_eq!(store.request(&row.id).await.unwrap().unwrap(), job.request);
    let failed = vec![to(JobState::Failed), Change::Closed];
    store.commit(&row.fence(), failed).await.unwrap();
    assert!(store.request(&row.id).await.unwrap().unwrap().files.is_empty());
}

pub(crate) async fn a_revision_tells_a_changed_row(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = over(store.as_ref()).await;
    assert!(store.is_current(&row.id, row.revision).await.unwrap());
    store.note(&row.id, None, vec![entry()]).await.unwrap().unwrap();
    assert!(row_of(store.as_ref(), &row.id).await.revision > row.revision);
}

pub(crate) async fn a_beginning_finds_the_ids_that_have_it(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = queued(store.as_ref()).await;
    let _other = queued(store.as_ref()).await;
    let beginning = |length: usize| JobIdPrefix::parse(&row.id.as_str()[..length]).unwrap();
    for length in [JobIdPrefix::SHORTEST, 12, 26] {
        let found = store.ids_beginning(&beginning(length), 100).await.unwrap();
        assert!(
            found.contains(&row.id)
                && found.iter().all(|id| id.as_str().starts_with(beginning(length).as_str()))
        );
        assert_eq!(store.ids_beginning(&beginning(length), 0).await.unwrap(), []);
    }
    assert_eq!(store.ids_beginning(&beginning(26), 100).await.unwrap(), [row.id.clone()]);
    store.request_delete(&row.id, entry()).await.unwrap();
    assert_eq!(store.ids_beginning(&beginning(26), 100).await.unwrap(), []);
}

pub(crate) async fn a_time_limit_is_only_raised_and_outlives_the_server(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let longer = row.limits.timeout_s + 100;
    for timeout_s in [longer, 1] {
        let after = store.commit(&row.fence(), vec![Change::TimeLimit { timeout_s }]).await.unwrap();
        assert_eq!(after.limits.timeout_s, longer);
    }
    drop(store);
    assert_eq!(row_of(harness.open().as_ref(), &row.id).await.limits.timeout_s, longer);
}
