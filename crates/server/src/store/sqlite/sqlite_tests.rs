//! What is true of SQLite alone, and the promises of every store on it.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};

use super::columns::select_sql;
use super::*;
use crate::audit::SigningKey;
use crate::job::InputFile;
use crate::job::samples::{self, signing_key};
use crate::store::conformance::{StoreHarness, new_job, over, store_conformance};

struct SqliteHarness {
    data: tempfile::TempDir,
    signer: AuditSigner,
}

impl StoreHarness for SqliteHarness {
    fn fresh(key: Arc<SigningKey>) -> Option<Self> {
        Some(Self { data: tempfile::tempdir().unwrap(), signer: AuditSigner::new(key) })
    }

    fn open(&self) -> Arc<dyn Store> {
        let lock = YardLock::take(self.data.path()).unwrap();
        Arc::new(SqliteStore::open(self.data.path(), lock, self.signer.clone(), Clock::default()).unwrap())
    }

    fn put_sandbox(&self, row: &SandboxRow) {
        let connection = connect(&self.data.path().join("yard.db"), OpenFlags::default()).unwrap();
        sandboxes::put(&connection, row).unwrap();
    }
}

store_conformance!(SqliteHarness);

#[tokio::test]
async fn r21_the_queries_of_a_status_use_an_index() {
    let data = tempfile::tempdir().unwrap();
    let lock = YardLock::take(data.path()).unwrap();
    let store =
        SqliteStore::open(data.path(), lock, AuditSigner::new(signing_key()), Clock::default()).unwrap();
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

#[test]
fn a_second_server_is_refused_while_the_first_one_holds_the_yard() {
    let data = tempfile::tempdir().unwrap();
    let open = || {
        let lock = YardLock::take(data.path())?;
        SqliteStore::open(data.path(), lock, AuditSigner::new(signing_key()), Clock::default())
    };
    let first = open().unwrap();
    assert!(matches!(open(), Err(OpenStoreError::Held { .. })));
    drop(first);
    assert!(open().is_ok());
}

#[tokio::test]
async fn the_files_of_the_database_tell_no_secret_and_are_for_this_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let data = tempfile::tempdir().unwrap();
    // As an earlier release left it: readable for everybody.
    std::fs::write(data.path().join("yard.db"), b"").unwrap();
    std::fs::set_permissions(data.path().join("yard.db"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = || {
        let lock = YardLock::take(data.path()).unwrap();
        SqliteStore::open(data.path(), lock, AuditSigner::new(signing_key()), Clock::default()).unwrap()
    };
    let store = open();
    let mut job = new_job();
    job.request.job.env.insert("TOKEN".into(), "hunter2-in-the-environment".into());
    job.request.job.code = "echo hunter2-in-the-code".into();
    job.request.files.push(InputFile { path: ".env".into(), bytes: b"hunter2-in-a-file".to_vec() });
    let id = job.row.id.clone();
    store.insert(job.clone(), None).await.unwrap();
    assert_eq!(store.request(&id).await.unwrap().unwrap(), job.request);
    let mut looked_at = 0;
    for entry in std::fs::read_dir(data.path()).unwrap() {
        let path = entry.unwrap().path();
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        if path.file_name().unwrap() != "lock" {
            assert_eq!(mode, 0o600, "{}", path.display());
        }
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(7).any(|part| part == b"hunter2"), "{}", path.display());
        looked_at += 1;
    }
    assert!(looked_at >= 4, "database, log, index, lock and key");
    drop(store);
    std::fs::remove_file(data.path().join("store.key")).unwrap();
    let store = open();
    assert!(matches!(store.request(&id).await, Err(StoreError::Damaged { .. })));
}

/// Marks and removes jobs as a sweep of retention and its owners do: many calls wait at once, and a commit takes those that wait.
#[tokio::test(flavor = "multi_thread")]
async fn d7_a_crowd_of_ended_jobs_is_pruned_in_few_commits() {
    const JOBS: usize = 3000;
    const AT_ONCE: usize = 256;
    let data = tempfile::tempdir().unwrap();
    let lock = YardLock::take(data.path()).unwrap();
    let store =
        SqliteStore::open(data.path(), lock, AuditSigner::new(signing_key()), Clock::default()).unwrap();
    let store = &store;
    let ended = stream::iter(0..JOBS).map(|_| over(store)).buffer_unordered(AT_ONCE);
    let ended: Vec<JobRow> = ended.collect().await;
    let commits = || store.counts.borrow().commits;
    let before = commits();
    let marked = stream::iter(&ended).map(|row| store.request_delete(&row.id, samples::entry()));
    let marked: Vec<_> = marked.buffer_unordered(AT_ONCE).collect().await;
    assert!(marked.into_iter().all(|answer| answer.unwrap().is_some()));
    let orphans = store.claim_orphans("a", 60_000).await.unwrap();
    assert_eq!(orphans.len(), JOBS);
    let removed = stream::iter(&orphans).map(|row| async move { store.remove(&row.fence()).await });
    let removed: Vec<_> = removed.buffer_unordered(AT_ONCE).collect().await;
    assert!(removed.into_iter().all(|answer| answer.is_ok()));
    assert_eq!((store.all_ids().await.unwrap().len(), store.retained().await.unwrap().bytes), (0, 0));
    // One for each job would be six thousand. How many share one depends on how fast the disk is.
    let took = commits() - before;
    assert!(took < (JOBS / 4) as u64, "{took} commits for {JOBS} jobs");
}
