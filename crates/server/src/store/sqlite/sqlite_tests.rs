use std::collections::BTreeMap;

use bytes::Bytes;
use sandyard_protocol::Secret;

use super::*;
use crate::app::{Floor, JobKind, NewJob, RequestedLimits};
use crate::config::JobLimits;
use crate::states::{JobState, SandboxState};
use crate::store::{ArtifactRow, Purpose, StoredKey, StreamRow};

const TTL_MS: u64 = 60_000;

fn job() -> InsertJob {
    let request = NewJob {
        kind: JobKind::Shell,
        code: "true".into(),
        name: None,
        files: Vec::new(),
        env: BTreeMap::new(),
        isolation: Floor::Any,
        limits: RequestedLimits::default(),
        keep: false,
        egress: Vec::new(),
        task: Default::default(),
    };
    let row = JobRow {
        number: 0,
        id: crate::job_id::random().unwrap(),
        name: Some("name".into()),
        kind: JobKind::Shell,
        limits: JobLimits { machine: Default::default(), timeout_s: 1, idle_timeout_s: None },
        keep: false,
        created_ms: 0,
        state: JobState::Queued,
        sandbox: SandboxState::None,
        reason: None,
        requested_isolation: "any".into(),
        driver: None,
        runtime: None,
        isolation_reason: None,
        started_ms: None,
        finished_ms: None,
        exit_code: None,
        failure: None,
        usage: None,
        outcome: None,
        artifact: None,
        incarnation: 0,
        attempts: 0,
        begun: false,
        secret: Secret::new([7; 32]),
        epoch: 0,
        cancel_requested: false,
        delete_requested: false,
        open: true,
        guest_sequence: 0,
        stdout: StreamRow::default(),
        stderr: StreamRow::default(),
        last_event: 0,
        revision: 0,
        egress_bytes: 0,
        task: None,
        journal_bytes: 0,
    };
    InsertJob { row, request: StoredRequest { job: request, files: Vec::new() }, key: None, queue: 100 }
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
    let store = SqliteStore::open(data.path()).unwrap();
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
    let store = SqliteStore::open(data.path()).unwrap();
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
    let store = SqliteStore::open(data.path()).unwrap();
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
    let store = SqliteStore::open(data.path()).unwrap();
    let claim = Claim { ttl_ms: 0, ..claim("a") };
    store.insert(job(), Some(claim)).await.unwrap();
    assert!(store.renew("a", TTL_MS).await.unwrap().is_empty());
    assert_eq!(store.claim_orphans("a", TTL_MS).await.unwrap().len(), 1);
    assert!(store.claim_orphans("b", TTL_MS).await.unwrap().is_empty(), "it is held now");
}

#[tokio::test]
async fn a_failing_write_undoes_itself_alone() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    let (good, bad) = (claimed(&store).await, claimed(&store).await);
    let (good_fence, bad_fence) = (good.fence(), bad.fence());
    let (first, second, third) = tokio::join!(
        store.commit(&good_fence, vec![to(JobState::Running)]),
        store.commit(&bad_fence, vec![chunk(0, 0, "x"), to(JobState::Succeeded)]),
        store.commit(&bad_fence, vec![to(JobState::Running), chunk(0, 5, "gap")]),
    );
    assert_eq!(first.unwrap().state, JobState::Running);
    assert!(matches!(second, Err(StoreError::IllegalMove { .. })));
    assert!(matches!(third, Err(StoreError::OutputGap { .. })));
    assert_eq!(store.job(&bad.id).await.unwrap().unwrap(), bad);
    assert_eq!(store.events(&bad.id, 0, 10).await.unwrap().len(), 2);
    assert_eq!(store.counts()[..3], [0, 1, 1]);
}

#[tokio::test]
async fn l9_a_cancel_of_a_queued_job_ends_it_and_keeps_it_from_being_claimed() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    let Inserted::New(row) = store.insert(job(), None).await.unwrap() else { panic!("not new") };
    let ended = store.request_cancel(&row.id).await.unwrap().unwrap();
    assert_eq!((ended.state, ended.open), (JobState::Cancelled, false));
    assert!(store.claim_queued(&row.id, claim("a")).await.unwrap().is_none());
    assert_eq!(store.request_cancel(&row.id).await.unwrap().unwrap(), ended, "twice is once");
}

#[tokio::test]
async fn a_deleted_job_is_unknown_at_once_and_gone_at_the_end() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    let mut insert = job();
    insert.key = Some(StoredKey { key_sha256: [1; 32], body_sha256: [2; 32] });
    let Inserted::New(row) = store.insert(insert, None).await.unwrap() else { panic!("not new") };
    store.request_delete(&row.id).await.unwrap().unwrap();
    assert_eq!(store.job(&row.id).await.unwrap(), None);
    assert_eq!(store.request_delete(&row.id).await.unwrap(), None);
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
    let store = SqliteStore::open(data.path()).unwrap();
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
