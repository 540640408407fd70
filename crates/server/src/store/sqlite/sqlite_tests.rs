//! What is true of SQLite alone, and the promises of every store on it.

use std::sync::Arc;

use super::columns::select_sql;
use super::*;
use crate::audit::SigningKey;
use crate::job::samples::signing_key;
use crate::store::conformance::{StoreHarness, store_conformance};

struct SqliteHarness {
    data: tempfile::TempDir,
    signer: AuditSigner,
}

impl StoreHarness for SqliteHarness {
    fn fresh(key: Arc<SigningKey>) -> Self {
        Self { data: tempfile::tempdir().unwrap(), signer: AuditSigner::new(key) }
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.data.path(), self.signer.clone(), Clock::default()).unwrap())
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
    let store = SqliteStore::open(data.path(), AuditSigner::new(signing_key()), Clock::default()).unwrap();
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
    let open = || SqliteStore::open(data.path(), AuditSigner::new(signing_key()), Clock::default());
    let first = open().unwrap();
    assert!(matches!(open(), Err(OpenStoreError::Held { .. })));
    drop(first);
    assert!(open().is_ok());
}
