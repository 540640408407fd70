//! The tables, as numbered migrations. A migration is never edited once released; a new one is added.

use rusqlite::{Connection, TransactionBehavior};

use crate::store::OpenStoreError;

/// Migrations in order. Each brings the schema from its index to the next version; all that are due run in one transaction.
const MIGRATIONS: [&str; 11] =
    [FIRST, EGRESS, TASKS, AUDIT, LEVEL, SANDBOXES, YARD_AUDIT, SEALED, EXPLANATIONS, RECORDINGS, TEXTS];

const EGRESS: &str = "ALTER TABLE jobs ADD COLUMN egress_bytes INTEGER NOT NULL DEFAULT 0";

const EXPLANATIONS: &str = "ALTER TABLE jobs ADD COLUMN explanation TEXT";

const RECORDINGS: &str = "
ALTER TABLE jobs ADD COLUMN recording_moments INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN recording_pictures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN recording_bytes INTEGER NOT NULL DEFAULT 0;
";

/// The bytes of a text are packed in its first row, or in a blob; later rows of the same text have neither.
const TEXTS: &str = "
ALTER TABLE jobs ADD COLUMN texts INTEGER NOT NULL DEFAULT 0;
CREATE TABLE texts (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    entry INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    path TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    digest BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    packed BLOB,
    in_blob INTEGER NOT NULL,
    PRIMARY KEY (job, number)
);
CREATE INDEX texts_by_digest ON texts (job, digest);
CREATE INDEX texts_by_entry ON texts (job, entry);
";

const LEVEL: &str = "ALTER TABLE jobs ADD COLUMN level TEXT";

/// Gives sandboxes rows of their own. Before, a sandbox was named by its job and a count, and used the job's secret. Live
/// sandboxes keep name and secret, so that the server can adopt them. A queued job has none: its earlier ones are stopped.
const SANDBOXES: &str = "
CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    driver TEXT NOT NULL,
    image TEXT,
    secret BLOB NOT NULL,
    phase TEXT NOT NULL,
    owner TEXT,
    job TEXT REFERENCES jobs (id) ON DELETE SET NULL,
    limits TEXT NOT NULL,
    limits_binding TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sandboxes_by_job ON sandboxes (job);
ALTER TABLE jobs ADD COLUMN sandbox_id TEXT;
UPDATE jobs SET sandbox_id = id || '-' || incarnation
    WHERE open = 1 AND incarnation > 0 AND driver IS NOT NULL AND state <> 'queued';
INSERT INTO sandboxes
    SELECT sandbox_id, driver, NULL, secret, 'bound', NULL, id, json_extract(limits, '$.machine'), 'bound', created_ms
    FROM jobs WHERE sandbox_id IS NOT NULL;
ALTER TABLE jobs DROP COLUMN secret;
";

/// The yard's own audit refers to no job, because it outlives all of them. The end of its chain is in one row.
const YARD_AUDIT: &str = "
CREATE TABLE yard_audit (
    number INTEGER PRIMARY KEY,
    record TEXT NOT NULL
);
CREATE TABLE yard_audit_end (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    audit TEXT NOT NULL
);
";

/// Requests are sealed by a key beside the database. Those of before stay as they are until their jobs go: a blob in `requests` is
/// sealed, a text is not.
const SEALED: &str = "ALTER TABLE request_files ADD COLUMN sealed INTEGER NOT NULL DEFAULT 0";

/// Entries may be large, so the table has row ids: an index over whole entries would be read with them.
const TASKS: &str = "
ALTER TABLE jobs ADD COLUMN task TEXT;
ALTER TABLE jobs ADD COLUMN journal_bytes INTEGER NOT NULL DEFAULT 0;
CREATE TABLE journal (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (job, number)
);
";

const AUDIT: &str = "
ALTER TABLE jobs ADD COLUMN audit TEXT;
ALTER TABLE jobs ADD COLUMN audit_bytes INTEGER NOT NULL DEFAULT 0;
CREATE TABLE audit (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (job, number)
);
";

const FIRST: &str = "
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT,
    kind TEXT NOT NULL,
    limits TEXT NOT NULL,
    keep INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    reason TEXT,
    requested_isolation TEXT NOT NULL,
    driver TEXT,
    runtime TEXT,
    isolation_reason TEXT,
    started_ms INTEGER,
    finished_ms INTEGER,
    exit_code INTEGER,
    failure TEXT,
    usage TEXT,
    outcome TEXT,
    artifact_sha256 TEXT,
    artifact_bytes INTEGER,
    incarnation INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    secret BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    cancel_requested INTEGER NOT NULL,
    delete_requested INTEGER NOT NULL,
    open INTEGER NOT NULL,
    guest_sequence INTEGER NOT NULL,
    stdout_bytes INTEGER NOT NULL,
    stdout_dropped INTEGER NOT NULL,
    stdout_next_chunk INTEGER NOT NULL,
    stdout_tail_chunk INTEGER NOT NULL,
    stderr_bytes INTEGER NOT NULL,
    stderr_dropped INTEGER NOT NULL,
    stderr_next_chunk INTEGER NOT NULL,
    stderr_tail_chunk INTEGER NOT NULL,
    last_event INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    lease_owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_by_kind ON jobs (kind, number);
CREATE INDEX jobs_open ON jobs (number) WHERE open = 1;
CREATE INDEX jobs_ended ON jobs (finished_ms, number) WHERE open = 0;

CREATE TABLE requests (
    job INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE,
    request TEXT NOT NULL
);
CREATE TABLE request_files (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    path TEXT NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (job, place)
);
CREATE TABLE idempotency_keys (
    key_sha256 BLOB PRIMARY KEY,
    body_sha256 BLOB NOT NULL,
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_job ON idempotency_keys (job);
CREATE TABLE events (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (job, id)
) WITHOUT ROWID;
CREATE TABLE chunks (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    stream INTEGER NOT NULL,
    number INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    bytes BLOB,
    PRIMARY KEY (job, stream, number)
);
";

/// Brings the database up to date, or refuses one of a later release.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), OpenStoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    // Immediate: two processes that migrate at once do it one after the other, and the second finds nothing left to do.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    // A newer schema may have columns and states that this release does not know.
    if found > known {
        return Err(OpenStoreError::Newer { found, known });
    }
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(migration)?;
        // In the same transaction as the tables: a crash leaves the old version with the old tables.
        transaction.pragma_update(None, "user_version", i64::try_from(index + 1).unwrap_or(i64::MAX))?;
    }
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        migrate(&mut connection).unwrap();
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(version, 11);
    }

    #[test]
    fn l15_a_newer_schema_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        assert!(matches!(migrate(&mut connection), Err(OpenStoreError::Newer { found: 99, known: 11 })));
    }
}
