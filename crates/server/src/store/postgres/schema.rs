//! The tables, as numbered migrations. A migration is never edited once released; a new one is added.
//!
//! There are no foreign keys: every row beside a job's own is written by a transaction that holds the lock of the job's row, and a check
//! for each event would cost more than the event.

use tokio_postgres::Client;

use crate::store::OpenStoreError;

/// The schema that holds all tables, so that a database may have others beside them.
pub(super) const SCHEMA: &str = "sandyard";

/// Migrations in order. Each brings the tables from its index to the next version; all that are due run in one transaction.
const MIGRATIONS: [&str; 1] = [FIRST];

/// Rows that change often leave room in their pages, so that a new version stays in its page and no index is touched. Ids are in the
/// order of their bytes, whatever the language of the database.
const FIRST: &str = r#"
CREATE TABLE jobs (
    number bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    kind text NOT NULL,
    name text,
    keep boolean NOT NULL,
    created_ms bigint NOT NULL,
    requested_isolation text NOT NULL
);
CREATE SEQUENCE job_numbers;
CREATE INDEX jobs_by_kind ON jobs (kind, number);
CREATE TABLE job_states (
    number bigint PRIMARY KEY,
    limits text NOT NULL,
    state text NOT NULL,
    sandbox text NOT NULL,
    sandbox_id text,
    reason text,
    driver text,
    runtime text,
    level text,
    isolation_reason text,
    started_ms bigint,
    finished_ms bigint,
    exit_code bigint,
    failure text,
    usage text,
    outcome text,
    artifact_sha256 text,
    artifact_bytes bigint,
    explanation text,
    incarnation bigint NOT NULL,
    attempts bigint NOT NULL,
    begun boolean NOT NULL,
    epoch bigint NOT NULL,
    cancel_requested boolean NOT NULL,
    delete_requested boolean NOT NULL,
    open boolean NOT NULL,
    lease_owner text,
    lease_place text,
    lease_until bigint NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_states_queued ON job_states (number) WHERE state = 'queued';
CREATE INDEX job_states_open ON job_states (number) WHERE open;
CREATE INDEX job_states_owned ON job_states (lease_owner) WHERE open AND lease_owner IS NOT NULL;
CREATE INDEX job_states_ended ON job_states (finished_ms, number) WHERE NOT open;
CREATE INDEX job_states_listed ON job_states (state, number);
CREATE TABLE job_progress (
    number bigint PRIMARY KEY,
    guest_sequence bigint NOT NULL,
    stdout_bytes bigint NOT NULL,
    stdout_dropped bigint NOT NULL,
    stdout_next_chunk bigint NOT NULL,
    stdout_tail_chunk bigint NOT NULL,
    stderr_bytes bigint NOT NULL,
    stderr_dropped bigint NOT NULL,
    stderr_next_chunk bigint NOT NULL,
    stderr_tail_chunk bigint NOT NULL,
    last_event bigint NOT NULL,
    revision bigint NOT NULL,
    egress_bytes bigint NOT NULL,
    task text,
    recording_moments bigint NOT NULL,
    recording_pictures bigint NOT NULL,
    recording_bytes bigint NOT NULL,
    journal_bytes bigint NOT NULL,
    texts bigint NOT NULL,
    audit text,
    audit_bytes bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE owners (
    owner text PRIMARY KEY,
    place text NOT NULL,
    lease_until bigint NOT NULL
) WITH (fillfactor = 20);
-- A row for each writer's last transaction, by which the writer learns whether it was committed when the connection was cut.
CREATE TABLE commits (
    writer bigint NOT NULL,
    number bigint NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (writer, number)
);
CREATE TABLE requests (
    job bigint PRIMARY KEY,
    request bytea NOT NULL
);
CREATE TABLE request_files (
    job bigint NOT NULL,
    place bigint NOT NULL,
    path text NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (job, place)
);
CREATE TABLE idempotency_keys (
    key_sha256 bytea PRIMARY KEY,
    body_sha256 bytea NOT NULL,
    job bigint NOT NULL
);
CREATE INDEX idempotency_keys_by_job ON idempotency_keys (job);
CREATE TABLE events (
    job bigint NOT NULL,
    id bigint NOT NULL,
    kind text NOT NULL,
    at_ms bigint NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (job, id)
);
CREATE TABLE chunks (
    job bigint NOT NULL,
    stream bigint NOT NULL,
    number bigint NOT NULL,
    place bigint NOT NULL,
    length bigint NOT NULL,
    bytes bytea,
    PRIMARY KEY (job, stream, number)
);
CREATE TABLE journal (
    job bigint NOT NULL,
    number bigint NOT NULL,
    kind text NOT NULL,
    at_ms bigint NOT NULL,
    incarnation bigint NOT NULL,
    entry text NOT NULL,
    PRIMARY KEY (job, number)
);
-- The bytes of a text are packed in its first row, or in a blob (1); later rows of the same text have neither.
CREATE TABLE texts (
    job bigint NOT NULL,
    number bigint NOT NULL,
    entry bigint NOT NULL,
    origin bigint NOT NULL,
    path text NOT NULL,
    at_ms bigint NOT NULL,
    digest bytea NOT NULL,
    bytes bigint NOT NULL,
    packed bytea,
    in_blob bigint NOT NULL,
    PRIMARY KEY (job, number)
);
CREATE INDEX texts_by_digest ON texts (job, digest);
CREATE INDEX texts_by_entry ON texts (job, entry);
CREATE TABLE audit (
    job bigint NOT NULL,
    number bigint NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (job, number)
);
CREATE TABLE sandboxes (
    id text COLLATE "C" PRIMARY KEY,
    driver text NOT NULL,
    image text,
    secret bytea NOT NULL,
    phase text NOT NULL,
    owner text,
    place text,
    job text,
    limits text NOT NULL,
    limits_binding text NOT NULL,
    created_ms bigint NOT NULL
);
CREATE INDEX sandboxes_by_job ON sandboxes (job);
CREATE TABLE yard_audit (
    number bigint PRIMARY KEY,
    record text NOT NULL
);
-- A new row for each new end, because a row that is always the same one would be found slowly beside a long reader.
CREATE TABLE yard_audit_end (
    place bigint PRIMARY KEY,
    audit text NOT NULL
);
CREATE TABLE yard (
    only_row boolean PRIMARY KEY CHECK (only_row),
    key_fingerprint bytea NOT NULL
);
"#;

/// Held by every server while it is connected, shared, and by a copy of the store alone. The number is this program's.
pub(super) const SHARE: &str = "SELECT pg_try_advisory_lock_shared(7382846128012245863)";
pub(super) const HOLD_ALONE: &str = "SELECT pg_try_advisory_lock(7382846128012245863)";

/// Brings the tables up to date, or refuses those of a later release. Servers that start at once do it one after the other.
pub(super) async fn migrate(client: &mut Client) -> Result<(), OpenStoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let transaction = client.transaction().await?;
    // Held until the end of the transaction. The number is this program's, for nothing else.
    transaction.batch_execute("SELECT pg_advisory_xact_lock(7382846128012245861)").await?;
    transaction
        .batch_execute(&format!(
            "CREATE SCHEMA IF NOT EXISTS {SCHEMA}; CREATE TABLE IF NOT EXISTS {SCHEMA}.schema_version (version bigint NOT NULL)"
        ))
        .await?;
    let found: i64 =
        transaction.query_one("SELECT COALESCE(MAX(version), 0) FROM schema_version", &[]).await?.get(0);
    // A newer schema may have columns and states that this release does not know.
    if found > known {
        return Err(OpenStoreError::Newer { found, known });
    }
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.batch_execute(migration).await?;
        // In the same transaction as the tables: a crash leaves the old version with the old tables.
        let version = i64::try_from(index + 1).unwrap_or(i64::MAX);
        transaction.execute("INSERT INTO schema_version (version) VALUES ($1)", &[&version]).await?;
    }
    Ok(transaction.commit().await?)
}
