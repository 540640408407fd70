//! A yard goes from SQLite to PostgreSQL and back, and is the same.

use std::path::Path;
use std::sync::Arc;

use sandyard_cluster::TestDatabase;
use sandyard_protocol::OutputStream;

use super::*;
use crate::clock::Clock;
use crate::job::samples::{entry, signing_key};
use crate::job::{Change, ChunkRow, InputFile};
use crate::store::conformance::{claim, new_job, over_changes};
use crate::store::{
    AuditOf, AuditSigner, Inserted, PostgresUrl, Store, StoreConfig, StoredKey, YardLock, open,
};

fn open_store(config: &StoreConfig, data: &Path) -> Arc<dyn Store> {
    let lock = YardLock::take(data).unwrap();
    open(config, data, lock, AuditSigner::new(signing_key()), Clock::default()).unwrap()
}

fn inserted(answer: Inserted) -> JobRow {
    match answer {
        Inserted::New(row) => *row,
        other => panic!("{other:?}"),
    }
}

/// A yard with jobs of every kind of row.
async fn fill(store: &dyn Store) {
    let chunk = |number: u64| {
        let inline = Some(bytes::Bytes::from_static(b"out\0put"));
        Change::Output(ChunkRow {
            stream: OutputStream::Stdout,
            number,
            offset: number * 7,
            length: 7,
            inline,
        })
    };
    for number in 0..5_u8 {
        let mut job = new_job();
        job.request.files = vec![InputFile { path: "a/b".into(), bytes: vec![number; 9] }];
        job.key = Some(StoredKey { key_sha256: [number; 32], body_sha256: [1; 32] });
        let row = inserted(store.insert(job, Some(claim("a"))).await.unwrap());
        store.commit(&row.fence(), vec![chunk(0), chunk(1), Change::Audit(entry())]).await.unwrap();
        if number < 3 {
            store.commit(&row.fence(), over_changes(&row)).await.unwrap();
        }
    }
    let gone = inserted(store.insert(new_job(), Some(claim("a"))).await.unwrap());
    store.request_delete(&gone.id, entry()).await.unwrap().unwrap();
    store.remove(&gone.fence()).await.unwrap();
}

/// Everything that a store tells of a yard.
async fn told(store: &dyn Store) -> String {
    let mut text = format!("{:?} {:?}\n", store.counts(), store.retained().await.unwrap());
    let mut ids = store.all_ids().await.unwrap();
    ids.sort_unstable();
    for id in ids {
        let row = store.any_job(&id).await.unwrap().unwrap();
        text += &format!("{row:?}\n{:?}\n", store.request(&id).await.unwrap());
        text += &format!("{:?}\n", store.events(&id, 0, 100).await.unwrap());
        text += &format!("{:?}\n", store.chunks(row.number, OutputStream::Stdout, 0, 100).await.unwrap());
        text += &format!("{:?}\n", store.audit(AuditOf::Job(row.number), 0, 100).await.unwrap());
    }
    text += &format!("{:?}\n", store.sandboxes().await.unwrap());
    text + &format!(
        "{:?} {:?}",
        store.yard_audit().await.unwrap(),
        store.audit(AuditOf::Yard, 0, 100).await.unwrap()
    )
}

// The task of a closed connection needs a thread while the next store is opened.
#[tokio::test(flavor = "multi_thread")]
async fn a_yard_goes_to_postgresql_and_back_and_is_the_same() {
    let Some(database) = TestDatabase::fresh() else { return };
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open_store(&StoreConfig::Sqlite, home.path());
    fill(store.as_ref()).await;
    let folder = CopyPlace::parse(home.path().to_str().unwrap()).unwrap();
    let postgres = CopyPlace::parse(&database.url()).unwrap();
    let held = copy_store(&folder, &postgres, |_| {}).await;
    assert!(matches!(held, Err(CopyStoreError::Open { .. })), "its server still runs: {held:?}");
    drop(store);
    // As the next server leaves it.
    let before = told(open_store(&StoreConfig::Sqlite, home.path()).as_ref()).await;
    let mut seen = Vec::new();
    let done = copy_store(&folder, &postgres, |progress| seen.push(progress.done)).await.unwrap();
    assert_eq!((done.jobs, done.done, done.found, seen), (5, 5, 0, vec![1, 2, 3, 4, 5]));
    let config = StoreConfig::Postgres(PostgresUrl::parse(&database.url()).unwrap());
    let store = open_store(&config, home.path());
    assert_eq!(told(store.as_ref()).await, before);
    let held = copy_store(&folder, &postgres, |_| {}).await;
    assert!(matches!(held, Err(CopyStoreError::Open { .. })), "{held:?}");
    drop(store);

    // Back, in two runs: the second finds what the first has copied. The key comes with the operator.
    std::fs::copy(home.path().join("store.key"), other.path().join("store.key")).unwrap();
    let back = CopyPlace::parse(other.path().to_str().unwrap()).unwrap();
    let first = copied(&postgres, &back).await.unwrap();
    assert_eq!(first.found, 0);
    let again = copied(&postgres, &back).await.unwrap();
    assert_eq!((again.done, again.found), (5, 5));
    let store = open_store(&StoreConfig::Sqlite, other.path());
    assert_eq!(told(store.as_ref()).await, before);
    let new = inserted(store.insert(new_job(), None).await.unwrap());
    assert!(new.number > 5, "numbers go on behind those of the copy");
    drop(store);
    let stranger = copied(&back, &postgres).await.unwrap();
    assert_eq!((stranger.jobs, stranger.found), (6, 5));
    let refused = copied(&folder, &postgres).await;
    assert!(matches!(refused, Err(CopyStoreError::OtherYard { .. })), "it would lose a job: {refused:?}");
}

/// Copies once nobody is connected any more: whoever let go a moment ago may still be.
async fn copied(from: &CopyPlace, to: &CopyPlace) -> Result<CopyProgress, CopyStoreError> {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        match copy_store(from, to, |_| {}).await {
            Err(CopyStoreError::Open { source, .. })
                if matches!(source.downcast_ref(), Some(OpenStoreError::Served))
                    && tokio::time::Instant::now() < deadline =>
            {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            done => return done,
        }
    }
}

#[tokio::test]
async fn a_folder_without_the_key_is_no_target() {
    let Some(database) = TestDatabase::fresh() else { return };
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = StoreConfig::Postgres(PostgresUrl::parse(&database.url()).unwrap());
    drop(open_store(&config, home.path()));
    let (from, to) = (
        CopyPlace::parse(&database.url()).unwrap(),
        CopyPlace::parse(other.path().to_str().unwrap()).unwrap(),
    );
    let Err(CopyStoreError::Open { source, .. }) = copied(&from, &to).await else { panic!() };
    assert!(matches!(source.downcast_ref(), Some(OpenStoreError::OtherKey)), "{source:?}");
    assert!(!other.path().join("yard.db").exists());
}

#[test]
fn places_are_folders_files_and_addresses() {
    let folder = CopyPlace::Folder("/var/lib/sandyard".into());
    for text in ["/var/lib/sandyard", "sqlite:/var/lib/sandyard", "/var/lib/sandyard/yard.db"] {
        assert_eq!(CopyPlace::parse(text).unwrap(), folder, "{text}");
    }
    assert!(matches!(CopyPlace::parse("postgres://a@db/x"), Ok(CopyPlace::Postgres(_))));
    for bad in ["", "mysql://db/x", "postgres://a:hunter2@/x"] {
        assert!(!format!("{:?}", CopyPlace::parse(bad).unwrap_err()).contains("hunter2"), "{bad}");
    }
}
