//! The store in one SQLite file: WAL, `synchronous=FULL`, one writer thread with group commit, readers beside it.
//!
//! A store is opened with the lock of its yard, so it knows that every earlier owner is dead.

mod codecs;
mod columns;
mod copying;
mod counts;
mod errors;
mod log_reserve;
mod read;
mod sandboxes;
mod schema;
mod texts;
mod write;
mod writer;

use std::fs::{File, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, types::Value};
use sandyard_api::JobIdPrefix;
use sandyard_memory::ContentDigest;
use sandyard_protocol::{JournalEntry, JournalRow, OutputStream};
use sandyard_sandbox::driver::SandboxId;
use tokio::sync::watch;

pub(super) use self::copying::SqliteCopy;

use self::counts::Counts;
use self::log_reserve::LogReserve;
use self::writer::{BUSY_TIMEOUT, SqliteTools, SqliteWriter};
use super::sealing::StoreSealer;
use super::watch::Watchers;
use super::{
    Appended, AuditOf, AuditSigner, EndedJob, InsertJob, Inserted, JobClaim, JobWatch, OpenStoreError,
    Retained, Said, StateCounts, Store, StoreError, StoredRequest, YardLock,
};
use crate::audit::{AuditEntry, AuditLine};
use crate::clock::Clock;
use crate::job::{
    AuditRow, Change, ChunkRow, EventRow, JobFence, JobFilter, JobId, JobRow, NewText, NotedEntries,
    SandboxRow, StoredText, TextRow,
};

/// Connections for reading; reads take microseconds, so a few serve many.
const READERS: usize = 4;
/// Page cache of each connection: the hot part of an index over 100,000 jobs.
const CACHE_KIB: i64 = 4096;
/// Statements kept prepared on each connection.
const CACHED_STATEMENTS: usize = 64;

/// The database of one yard, with one writer thread and a few readers.
pub(crate) struct SqliteStore {
    writer: Option<SqliteWriter>,
    thread: Option<std::thread::JoinHandle<()>>,
    readers: Vec<Mutex<Connection>>,
    signer: AuditSigner,
    sealer: Arc<StoreSealer>,
    next_reader: AtomicUsize,
    watchers: Watchers,
    counts: watch::Receiver<Counts>,
    /// Holds the yard until the store is dropped.
    _lock: YardLock,
}

impl SqliteStore {
    /// Opens or makes the database of a data directory, whose lock the caller has taken: a second server must not even migrate
    /// it.
    pub(crate) fn open(
        data: &Path,
        lock: YardLock,
        signer: AuditSigner,
        clock: Clock,
    ) -> Result<Self, OpenStoreError> {
        let sealer = Arc::new(StoreSealer::load_or_create(&data.join("store.key"))?);
        let path = data.join("yard.db");
        make_private(&path).map_err(|source| OpenStoreError::Prepare { path: path.clone(), source })?;
        let mut connection = connect(&path, OpenFlags::default())?;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            tracing::warn!(mode, "the database could not be switched to a write-ahead log");
        }
        // Before the readers are opened: they must see the final schema.
        schema::migrate(&mut connection)?;
        // This process holds the lock, so every earlier owner is dead. Without this, jobs would wait until their leases run out.
        connection.execute("UPDATE jobs SET lease_owner = NULL, lease_until = 0 WHERE open = 1", [])?;
        connection.execute("UPDATE sandboxes SET owner = NULL WHERE owner IS NOT NULL", [])?;
        // Counted once, before the writer starts. From then on only the writer changes the totals, with each commit.
        let (counts_sender, counts) = watch::channel(Counts::read(&connection)?);
        let readers = (0..READERS)
            .map(|_| {
                connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
                    .map(Mutex::new)
            })
            .collect::<Result<_, _>>()?;
        let watchers = Watchers::default();
        let tools = SqliteTools { signer: signer.clone(), sealer: Arc::clone(&sealer), clock };
        // After the first writes, which made the log.
        let reserve = LogReserve::new(&path);
        let (writer, thread) =
            SqliteWriter::start(connection, reserve, watchers.clone(), counts_sender, tools)
                .map_err(OpenStoreError::Thread)?;
        Ok(Self {
            writer: Some(writer),
            thread: Some(thread),
            readers,
            signer,
            sealer,
            next_reader: AtomicUsize::new(0),
            watchers,
            counts,
            _lock: lock,
        })
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let first = self.next_reader.fetch_add(1, Ordering::Relaxed);
        // A free reader first: a slow scan on one connection must not hold up reads that take microseconds.
        for step in 0..self.readers.len() {
            if let Some(connection) = self.readers[(first + step) % self.readers.len()].try_lock() {
                return work(&connection);
            }
        }
        let reader = &self.readers[first % self.readers.len()];
        work(&reader.lock())
    }

    fn writer(&self) -> Result<&SqliteWriter, StoreError> {
        self.writer.as_ref().ok_or_else(|| StoreError::Closed("stopped".into()))
    }
}

impl Drop for SqliteStore {
    /// Ends the writer before the lock is released, so that two writers never meet.
    fn drop(&mut self) {
        self.writer = None;
        // The queue is closed now. The thread commits every operation that is queued, then ends.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes the database's file for this user alone, or takes it from others: SQLite would make it readable for everybody, and its
/// companions get the mode of the database.
fn make_private(path: &Path) -> std::io::Result<()> {
    let file = File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    for companion in ["yard.db-wal", "yard.db-shm"] {
        match std::fs::set_permissions(path.with_file_name(companion), Permissions::from_mode(0o600)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // FULL: in WAL mode, NORMAL does not sync at COMMIT, and a power cut could lose an answered write.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Off by default in SQLite, and set for each connection.
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // Else SQLite keeps large sorts in files of /tmp, which a confined server may not make.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Without it a statement is compiled anew whenever a bound value changes.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    Ok(connection)
}

#[async_trait]
impl Store for SqliteStore {
    async fn job(&self, id: &JobId) -> Result<Option<JobRow>, StoreError> {
        let row = self.read(|connection| read::job(connection, id))?;
        Ok(row.filter(|row| !row.delete_requested))
    }

    async fn any_job(&self, id: &JobId) -> Result<Option<JobRow>, StoreError> {
        self.read(|connection| read::job(connection, id))
    }

    /// Always true: the lock keeps other processes from writing, and caches in this process are notified of its writes.
    async fn is_current(&self, _: &JobId, _: u64) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn request(&self, id: &JobId) -> Result<Option<StoredRequest>, StoreError> {
        self.read(|connection| read::request(connection, &self.sealer, id))
    }

    async fn list(
        &self,
        filter: &JobFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<JobRow>, StoreError> {
        self.read(|connection| read::list(connection, filter, before, limit))
    }

    async fn events(&self, id: &JobId, after: u64, limit: usize) -> Result<Vec<EventRow>, StoreError> {
        self.read(|connection| read::events(connection, id, None, after, limit))
    }

    async fn events_of_kind(
        &self,
        id: &JobId,
        kind: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRow>, StoreError> {
        self.read(|connection| read::events(connection, id, Some(kind), after, limit))
    }

    async fn chunks(
        &self,
        job: i64,
        stream: OutputStream,
        from: u64,
        limit: usize,
    ) -> Result<Vec<ChunkRow>, StoreError> {
        self.read(|connection| read::chunks(connection, job, stream, from, limit))
    }

    async fn chunks_after(
        &self,
        job: i64,
        stream: OutputStream,
        offset: u64,
    ) -> Result<Vec<ChunkRow>, StoreError> {
        self.read(|connection| read::chunks_after(connection, job, stream, offset))
    }

    async fn insert(&self, job: InsertJob, claim: Option<JobClaim>) -> Result<Inserted, StoreError> {
        self.writer()?.write(move |writing| write::insert(writing, job, claim)).await
    }

    async fn queued(&self, after: i64, limit: usize) -> Result<Vec<JobRow>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let condition = "state = 'queued' AND delete_requested = 0 AND number > ?1 ORDER BY number LIMIT ?2";
        let values = vec![Value::Integer(after), Value::Integer(limit)];
        self.read(|connection| read::jobs(connection, condition, values))
    }

    async fn claim_queued(&self, id: &JobId, claim: JobClaim) -> Result<Option<JobRow>, StoreError> {
        let id = id.clone();
        self.writer()?.write(move |writing| write::claim_queued(writing, &id, claim)).await
    }

    async fn claim_orphans(&self, owner: &str, ttl_ms: u64) -> Result<Vec<JobRow>, StoreError> {
        let owner = owner.to_owned();
        self.writer()?.write(move |writing| write::claim_orphans(writing, &owner, ttl_ms)).await
    }

    async fn renew(&self, owner: &str, ttl_ms: u64) -> Result<Vec<JobFence>, StoreError> {
        let owner = owner.to_owned();
        self.writer()?.write(move |writing| write::renew(writing, &owner, ttl_ms)).await
    }

    async fn release_all(&self, owner: &str) -> Result<(), StoreError> {
        let owner = owner.to_owned();
        self.writer()?.write(move |writing| write::release_all(writing, &owner)).await
    }

    async fn requeue(&self, fence: &JobFence, reason: String) -> Result<(), StoreError> {
        let fence = fence.clone();
        self.writer()?.write(move |writing| write::requeue(writing, &fence, reason)).await
    }

    async fn commit(&self, fence: &JobFence, changes: Vec<Change>) -> Result<JobRow, StoreError> {
        let fence = fence.clone();
        self.writer()?.write(move |writing| write::commit(writing, &fence, changes)).await
    }

    async fn append(
        &self,
        fence: &JobFence,
        number: u64,
        entry: Box<JournalEntry>,
    ) -> Result<Appended, StoreError> {
        let fence = fence.clone();
        self.writer()?.write(move |writing| write::append(writing, &fence, number, entry)).await
    }

    async fn say(&self, id: &JobId, said: Box<JournalEntry>, entry: AuditEntry) -> Result<Said, StoreError> {
        let id = id.clone();
        self.writer()?.write(move |writing| write::say(writing, &id, said, entry)).await
    }

    async fn note(
        &self,
        id: &JobId,
        epoch: Option<u64>,
        entries: Vec<AuditEntry>,
    ) -> Result<Option<NotedEntries>, StoreError> {
        let id = id.clone();
        let writer = self.writer()?;
        writer.write_lightly(move |writing| write::note(writing, &id, epoch, &entries)).await
    }

    async fn audit(&self, of: AuditOf, first: u64, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        self.read(|connection| read::audit(connection, of, first, limit))
    }

    async fn journal(
        &self,
        job: i64,
        first: u64,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<JournalRow>, StoreError> {
        self.read(|connection| read::journal(connection, job, first, limit, bytes))
    }

    async fn keep_texts(
        &self,
        id: &JobId,
        epoch: Option<u64>,
        texts: Vec<NewText>,
    ) -> Result<Option<()>, StoreError> {
        let id = id.clone();
        self.writer()?.write_lightly(move |writing| texts::keep(writing, &id, epoch, texts)).await
    }

    async fn texts(&self, job: i64, first: u64, limit: usize) -> Result<Vec<TextRow>, StoreError> {
        self.read(|connection| texts::from(connection, job, first, limit))
    }

    async fn texts_of(
        &self,
        job: i64,
        path: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<TextRow>, StoreError> {
        self.read(|connection| texts::of_path(connection, job, path, before, limit))
    }

    async fn texts_at(&self, job: i64, entry: u64, limit: usize) -> Result<Vec<TextRow>, StoreError> {
        self.read(|connection| texts::at_entry(connection, job, entry, limit))
    }

    async fn text(&self, job: i64, digest: ContentDigest) -> Result<Option<StoredText>, StoreError> {
        self.read(|connection| texts::body(connection, job, digest))
    }

    async fn note_yard(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.writer()?.write(move |writing| write::note_yard(writing, &entry)).await
    }

    async fn yard_audit(&self) -> Result<AuditRow, StoreError> {
        Ok(self.read(read::yard_audit)?.unwrap_or_else(|| self.signer.empty_yard_audit()))
    }

    async fn request_cancel(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError> {
        let id = id.clone();
        self.writer()?.write(move |writing| write::request_cancel(writing, &id, entry)).await
    }

    async fn request_delete(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError> {
        let id = id.clone();
        self.writer()?.write(move |writing| write::request_delete(writing, &id, entry)).await
    }

    async fn remove(&self, fence: &JobFence) -> Result<(), StoreError> {
        let fence = fence.clone();
        self.writer()?.write(move |writing| write::remove(writing, &fence)).await
    }

    async fn retained(&self) -> Result<Retained, StoreError> {
        let oldest_ms = self.read(read::oldest_end)?;
        Ok(Retained { bytes: self.counts.borrow().bytes, oldest_ms })
    }

    async fn ended(&self) -> Result<Vec<EndedJob>, StoreError> {
        self.read(read::ended)
    }

    async fn open_jobs(&self) -> Result<Vec<JobRow>, StoreError> {
        self.read(|connection| read::jobs(connection, "open = 1 ORDER BY number", Vec::new()))
    }

    async fn ids_beginning(&self, prefix: &JobIdPrefix, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.read(|connection| read::ids_beginning(connection, prefix, limit))
    }

    async fn all_ids(&self) -> Result<Vec<JobId>, StoreError> {
        self.read(read::all_ids)
    }

    async fn sandbox(&self, id: &SandboxId) -> Result<Option<SandboxRow>, StoreError> {
        self.read(|connection| sandboxes::one(connection, id))
    }

    async fn sandboxes(&self) -> Result<Vec<SandboxRow>, StoreError> {
        self.read(sandboxes::all)
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), StoreError> {
        let id = id.clone();
        self.writer()?.write(move |writing| write::remove_sandbox(writing, id)).await
    }

    fn counts(&self) -> StateCounts {
        self.counts.borrow().states
    }

    fn watch(&self, id: &JobId) -> JobWatch {
        self.watchers.watch(id)
    }

    async fn broken(&self) -> String {
        match &self.writer {
            Some(writer) => writer.broken().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
#[path = "sqlite_tests.rs"]
mod tests;
