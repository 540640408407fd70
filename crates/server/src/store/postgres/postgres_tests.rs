//! What is true of PostgreSQL alone, and the promises of every store on it.

use std::sync::Arc;
use std::time::Duration;

use sandyard_cluster::TestDatabase;

use super::*;
use crate::audit::SigningKey;
use crate::job::samples::signing_key;
use crate::job::{JobState, samples};
use crate::store::conformance::{StoreHarness, new_job, store_conformance};

struct PostgresHarness {
    data: tempfile::TempDir,
    signer: AuditSigner,
    database: TestDatabase,
}

impl PostgresHarness {
    fn on(database: TestDatabase, key: Arc<SigningKey>) -> Self {
        Self { data: tempfile::tempdir().unwrap(), signer: AuditSigner::new(key), database }
    }

    fn url(&self) -> PostgresUrl {
        PostgresUrl::parse(&self.database.url()).unwrap()
    }

    fn open_in(&self, data: &Path) -> Result<PostgresStore, OpenStoreError> {
        let lock = YardLock::take(data).unwrap();
        PostgresStore::open(&self.url(), data, lock, self.signer.clone(), Clock::default())
    }

    /// The data folder of another server, with the key of the yard.
    fn other_place(&self) -> tempfile::TempDir {
        let other = tempfile::tempdir().unwrap();
        std::fs::copy(self.data.path().join("store.key"), other.path().join("store.key")).unwrap();
        other
    }
}

impl StoreHarness for PostgresHarness {
    fn fresh(key: Arc<SigningKey>) -> Option<Self> {
        TestDatabase::fresh().map(|database| Self::on(database, key))
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.open_in(self.data.path()).unwrap())
    }

    fn put_sandbox(&self, row: &SandboxRow) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                runtime.block_on(async {
                    let connected = Connector::new(&self.url(), handle).unwrap().connect().await.unwrap();
                    let values = sandboxes::values(row, "test").unwrap();
                    connected.query(sandboxes::PUT, &values).await.unwrap();
                });
                runtime.shutdown_background();
            });
        });
    }
}

store_conformance!(PostgresHarness);

fn harness() -> Option<PostgresHarness> {
    PostgresHarness::fresh(signing_key())
}

fn claim(owner: &str) -> JobClaim {
    let sandbox = Box::new(samples::sandbox());
    let changes = vec![
        Change::NewSandbox { sandbox, purpose: crate::job::Purpose::Run },
        Change::Move { to: JobState::Starting, reason: None },
    ];
    JobClaim { owner: owner.into(), ttl_ms: 60_000, changes }
}

fn inserted(answer: Inserted) -> JobRow {
    match answer {
        Inserted::New(row) => *row,
        other => panic!("{other:?}"),
    }
}

/// Waits for a level that another task or server reaches.
async fn until(mut reached: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !reached().await {
        assert!(tokio::time::Instant::now() < deadline, "not in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn commits_of_another_server_wake_watchers_and_change_the_totals() {
    let Some(harness) = harness() else { return };
    let one = harness.open_in(harness.data.path()).unwrap();
    let place = harness.other_place();
    let other = harness.open_in(place.path()).unwrap();
    let row = inserted(one.insert(new_job(), None).await.unwrap());
    let deadline = Duration::from_secs(10);
    tokio::time::timeout(deadline, other.queue_grew()).await.unwrap();
    until(async || other.counts()[0] == 1).await;
    let mut watch = other.watch(&row.id);
    let claimed = one.claim_queued(&row.id, claim("one")).await.unwrap().unwrap();
    tokio::time::timeout(deadline, watch.changed()).await.unwrap();
    until(async || other.counts()[..2] == [0, 1]).await;
    assert!(!other.is_current(&row.id, row.revision).await.unwrap());
    assert!(other.is_current(&row.id, claimed.revision).await.unwrap());
    assert!(other.claim_queued(&row.id, claim("other")).await.unwrap().is_none());
    // A server that comes later counts what both have done.
    let place = harness.other_place();
    assert_eq!(harness.open_in(place.path()).unwrap().counts()[..2], [0, 1]);
}

#[tokio::test]
async fn a_job_is_for_the_place_of_its_sandbox_until_its_lease_has_run_out() {
    let Some(harness) = harness() else { return };
    let one = harness.open_in(harness.data.path()).unwrap();
    let place = harness.other_place();
    let other = harness.open_in(place.path()).unwrap();
    let long = inserted(one.insert(new_job(), Some(claim("one"))).await.unwrap());
    let short = JobClaim { ttl_ms: 0, ..claim("one") };
    let short = inserted(one.insert(new_job(), Some(short)).await.unwrap());
    let taken = other.claim_orphans("other", 60_000).await.unwrap();
    assert_eq!(taken.iter().map(|row| &row.id).collect::<Vec<_>>(), [&short.id]);
    // A request through another server leaves the lease where it is.
    other.request_cancel(&long.id, samples::entry()).await.unwrap().unwrap();
    one.release_all("one").await.unwrap();
    assert!(other.claim_orphans("other", 60_000).await.unwrap().is_empty(), "its server comes back soon");
    let back = one.claim_orphans("two", 60_000).await.unwrap();
    assert_eq!(back.iter().map(|row| &row.id).collect::<Vec<_>>(), [&long.id]);
}

#[tokio::test]
async fn two_servers_claim_every_job_once() {
    let Some(harness) = harness() else { return };
    let one = harness.open_in(harness.data.path()).unwrap();
    let place = harness.other_place();
    let other = harness.open_in(place.path()).unwrap();
    let inserts = (0..60).map(|_| one.insert(new_job(), None));
    let jobs: Vec<JobRow> =
        futures_util::future::join_all(inserts).await.into_iter().map(|row| inserted(row.unwrap())).collect();
    let claims = |store: &'_ PostgresStore, owner: &'static str| {
        let claims: Vec<_> = jobs.iter().map(|row| (row.id.clone(), claim(owner))).collect();
        let writer = store.writer.clone();
        async move {
            let claims = claims.into_iter().map(|(id, claim)| {
                let writer = writer.clone();
                async move { writer.write(operations::ClaimQueued { id, claim }).await.unwrap().is_some() }
            });
            futures_util::future::join_all(claims).await
        }
    };
    let (first, second) = tokio::join!(claims(&one, "one"), claims(&other, "other"));
    for (first, second) in first.iter().zip(&second) {
        assert!(!(first & second), "a job has two owners");
    }
    // One that both passed over, because the other one had it for a moment, is still queued.
    let taken = first.iter().chain(&second).filter(|taken| **taken).count();
    assert_eq!(one.queued(0, 100).await.unwrap().len() + taken, jobs.len());
    assert_eq!(one.sandboxes().await.unwrap().len(), taken);
}

#[tokio::test]
async fn the_same_key_at_two_servers_makes_one_job() {
    let Some(harness) = harness() else { return };
    let one = harness.open_in(harness.data.path()).unwrap();
    let place = harness.other_place();
    let other = harness.open_in(place.path()).unwrap();
    let key = crate::store::StoredKey { key_sha256: [1; 32], body_sha256: [2; 32] };
    let insert = |store| {
        let job = InsertJob { key: Some(key.clone()), ..new_job() };
        let store: &PostgresStore = store;
        async move { store.insert(job, None).await.unwrap() }
    };
    let (first, second) = tokio::join!(insert(&one), insert(&other));
    let news = [&first, &second].iter().filter(|answer| matches!(answer, Inserted::New(_))).count();
    assert_eq!((news, one.all_ids().await.unwrap().len()), (1, 1));
}

#[tokio::test]
async fn a_server_with_another_key_is_refused() {
    let Some(harness) = harness() else { return };
    drop(harness.open_in(harness.data.path()).unwrap());
    let stranger = tempfile::tempdir().unwrap();
    assert!(matches!(harness.open_in(stranger.path()), Err(OpenStoreError::OtherKey)));
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let Some(harness) = harness() else { return };
    drop(harness.open_in(harness.data.path()).unwrap());
    harness.database.ask("INSERT INTO sandyard.schema_version VALUES (99)");
    let refused = harness.open_in(harness.data.path());
    assert!(matches!(refused, Err(OpenStoreError::Newer { found: 99, known: 1 })));
}

#[tokio::test]
async fn requests_are_sealed_in_the_database() {
    let Some(harness) = harness() else { return };
    let store = harness.open_in(harness.data.path()).unwrap();
    let mut job = new_job();
    job.request.job.env.insert("TOKEN".into(), "hunter2-in-the-environment".into());
    job.request.job.code = "echo hunter2-in-the-code".into();
    job.request
        .files
        .push(crate::job::InputFile { path: ".env".into(), bytes: b"hunter2-in-a-file".to_vec() });
    let id = job.row.id.clone();
    store.insert(job.clone(), None).await.unwrap();
    assert_eq!(store.request(&id).await.unwrap().unwrap(), job.request);
    let leaks = harness.database.ask(
        "SELECT COUNT(*) FROM sandyard.requests r, sandyard.request_files f \
         WHERE position('hunter2'::bytea in r.request) > 0 OR position('hunter2'::bytea in f.bytes) > 0",
    );
    assert_eq!(leaks.trim(), "0");
}

/// Commits go on while connections are cut and the server dies: each is answered with success and is there once, or with an error that
/// passes.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_while_the_database_restarts() {
    let Some(database) = TestDatabase::alone() else { return };
    let harness = PostgresHarness::on(database, signing_key());
    let store = Arc::new(harness.open_in(harness.data.path()).unwrap());
    let stop = tokio_util::sync::CancellationToken::new();
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (store, stop) = (Arc::clone(&store), stop.clone());
            tokio::spawn(async move {
                let mut kept = Vec::new();
                while !stop.is_cancelled() {
                    match store.insert(new_job(), Some(claim("one"))).await {
                        Ok(answer) => kept.push(inserted(answer)),
                        Err(error) => assert!(error.is_transient(), "{error:?}"),
                    }
                }
                kept
            })
        })
        .collect();
    // Each fault comes when commits have gone on after the one before.
    for fault in 0..4 {
        let before = store.counts()[1];
        until(async || store.counts()[1] > before + 20).await;
        let done =
            if fault % 2 == 0 { harness.database.cut_connections() } else { harness.database.crash_server() };
        assert!(done);
    }
    let before = store.counts()[1];
    until(async || store.counts()[1] > before + 20).await;
    stop.cancel();
    let mut kept = Vec::new();
    for client in clients {
        kept.extend(client.await.unwrap());
    }
    let stored = store.all_ids().await.unwrap();
    for row in &kept {
        assert_eq!(store.any_job(&row.id).await.unwrap().as_ref(), Some(row));
        let events = store.events(&row.id, 0, 10).await.unwrap();
        assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), [1, 2]);
    }
    // Some are stored whose callers got an error: they were told nothing that is not so.
    assert!(stored.len() >= kept.len());
    assert_eq!(store.counts()[1], stored.len() as u64, "the totals have survived it too");
    assert_eq!(store.sandboxes().await.unwrap().len(), stored.len());
}

/// A transaction that is only read keeps old rows alive. What changes most must not become slower for it: rows change in their pages.
#[tokio::test]
async fn commits_of_progress_touch_no_index() {
    let Some(harness) = harness() else { return };
    let store = harness.open_in(harness.data.path()).unwrap();
    let row = inserted(store.insert(new_job(), Some(claim("one"))).await.unwrap());
    for sequence in 1..=5 {
        store.commit(&row.fence(), vec![Change::GuestSequence(sequence)]).await.unwrap();
    }
    store.renew("one", 60_000).await.unwrap();
    drop(store);
    let updates = |table: &str| {
        let sql =
            format!("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_all_tables WHERE relname = '{table}'");
        harness.database.ask(&sql).trim().to_owned()
    };
    until(async || updates("job_progress") == "5|5").await;
    assert_eq!(
        updates("job_states"),
        "0|0",
        "neither progress nor a heartbeat writes the row of a job's state"
    );
}
