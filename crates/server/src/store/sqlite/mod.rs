//! The store in one SQLite file: WAL, `synchronous=FULL`, one writer thread with group commit, readers beside it.
//!
//! A lock file keeps a second server off the same yard, so whoever opens it knows that every earlier owner is dead.

mod audit;
mod columns;
mod counts;
mod journal;
mod read;
mod schema;
mod write;
mod writer;

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use async_trait::async_trait;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, types::Value};
use sandyard_protocol::{JournalEntry, JournalRow, OutputStream};
use tokio::sync::watch;

use self::counts::Counts;
use self::write::Now;
use self::writer::{BUSY_TIMEOUT, Writer};
use super::watch::Watchers;
use super::{
    Appended, Change, ChunkRow, Claim, EndedJob, EventRow, Fence, InsertJob, Inserted, JobRow, JobWatch,
    Notes, OpenError, Retained, Said, StateCounts, Store, StoreError, StoredRequest,
};
use crate::audit::{AuditEntry, AuditLine, SigningKey};
use crate::job::JobFilter;
use crate::job::JobId;

/// Connections for reading; reads take microseconds, so a few serve many.
const READERS: usize = 4;
/// Page cache of each connection: the hot part of an index over 100,000 jobs.
const CACHE_KIB: i64 = 4096;
/// Statements kept prepared on each connection.
const STATEMENTS: usize = 64;

/// A yard's database.
pub(crate) struct SqliteStore {
    writer: Option<Writer>,
    thread: Option<std::thread::JoinHandle<()>>,
    readers: Vec<Mutex<Connection>>,
    next_reader: AtomicUsize,
    watchers: Watchers,
    counts: watch::Receiver<Counts>,
    /// Holds the yard until the store is dropped.
    _lock: File,
}

impl SqliteStore {
    /// Opens or makes the database of a data directory and takes the yard. The key signs the heads of audits.
    pub(crate) fn open(data: &Path, signer: Arc<SigningKey>) -> Result<Self, OpenError> {
        let lock = lock(data)?;
        let path = data.join("yard.db");
        let mut connection = connect(&path, OpenFlags::default())?;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            tracing::warn!(mode, "the database could not be switched to a write-ahead log");
        }
        schema::migrate(&mut connection)?;
        // The lock is ours, so no earlier owner is alive.
        connection.execute("UPDATE jobs SET lease_owner = NULL, lease_until = 0 WHERE open = 1", [])?;
        let (counts_sender, counts) = watch::channel(Counts::read(&connection)?);
        let readers = (0..READERS)
            .map(|_| {
                connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
                    .map(Mutex::new)
            })
            .collect::<Result<_, _>>()?;
        let watchers = Watchers::default();
        let (writer, thread) =
            Writer::start(connection, watchers.clone(), counts_sender, signer).map_err(OpenError::Thread)?;
        Ok(Self {
            writer: Some(writer),
            thread: Some(thread),
            readers,
            next_reader: AtomicUsize::new(0),
            watchers,
            counts,
            _lock: lock,
        })
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let first = self.next_reader.fetch_add(1, Ordering::Relaxed);
        for step in 0..self.readers.len() {
            match self.readers[(first + step) % self.readers.len()].try_lock() {
                Ok(connection) => return work(&connection),
                Err(TryLockError::Poisoned(poisoned)) => return work(&poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        let reader = &self.readers[first % self.readers.len()];
        work(&reader.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn writer(&self) -> Result<&Writer, StoreError> {
        self.writer.as_ref().ok_or_else(|| StoreError::Closed("stopped".into()))
    }
}

impl Drop for SqliteStore {
    /// Ends the writer before the lock is given up, so that two writers never meet.
    fn drop(&mut self) {
        self.writer = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(data: &Path) -> Result<File, OpenError> {
    let path = data.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|source| OpenError::Prepare { path: path.clone(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(OpenError::Held { path: data.to_owned() }),
        Err(std::fs::TryLockError::Error(source)) => Err(OpenError::Prepare { path, source }),
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // Without it a statement is compiled anew whenever a bound value changes.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

fn now() -> Now {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Now {
        wall_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
        lease_ms: boot.tv_sec * 1000 + boot.tv_nsec / 1_000_000,
    }
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

    async fn request(&self, id: &JobId) -> Result<Option<StoredRequest>, StoreError> {
        self.read(|connection| read::request(connection, id))
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
        self.read(|connection| read::events(connection, id, after, limit))
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

    async fn insert(&self, job: InsertJob, claim: Option<Claim>) -> Result<Inserted, StoreError> {
        self.writer()?.write(move |writing| write::insert(writing, now(), job, claim)).await
    }

    async fn queued(&self, after: i64, limit: usize) -> Result<Vec<JobRow>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let condition = "state = 'queued' AND delete_requested = 0 AND number > ?1 ORDER BY number LIMIT ?2";
        let values = vec![Value::Integer(after), Value::Integer(limit)];
        self.read(|connection| read::jobs(connection, condition, values))
    }

    async fn claim_queued(&self, id: &JobId, claim: Claim) -> Result<Option<JobRow>, StoreError> {
        let id = id.clone();
        self.writer()?.write(move |writing| write::claim_queued(writing, now(), &id, claim)).await
    }

    async fn claim_orphans(&self, owner: &str, ttl_ms: u64) -> Result<Vec<JobRow>, StoreError> {
        let owner = owner.to_owned();
        self.writer()?.write(move |writing| write::claim_orphans(writing, now(), &owner, ttl_ms)).await
    }

    async fn renew(&self, owner: &str, ttl_ms: u64) -> Result<Vec<Fence>, StoreError> {
        let owner = owner.to_owned();
        self.writer()?.write(move |writing| write::renew(writing, now(), &owner, ttl_ms)).await
    }

    async fn release_all(&self, owner: &str) -> Result<(), StoreError> {
        let owner = owner.to_owned();
        self.writer()?.write(move |writing| write::release_all(writing, &owner)).await
    }

    async fn requeue(&self, fence: &Fence, reason: String) -> Result<(), StoreError> {
        let fence = fence.clone();
        self.writer()?.write(move |writing| write::requeue(writing, now(), &fence, reason)).await
    }

    async fn commit(&self, fence: &Fence, changes: Vec<Change>) -> Result<JobRow, StoreError> {
        let fence = fence.clone();
        self.writer()?.write(move |writing| write::commit(writing, now(), &fence, changes)).await
    }

    async fn append(
        &self,
        fence: &Fence,
        number: u64,
        entry: Box<JournalEntry>,
    ) -> Result<Appended, StoreError> {
        let fence = fence.clone();
        self.writer()?.write(move |writing| journal::append(writing, now(), &fence, number, entry)).await
    }

    async fn say(&self, id: &JobId, said: Box<JournalEntry>, entry: AuditEntry) -> Result<Said, StoreError> {
        let id = id.clone();
        self.writer()?.write(move |writing| journal::say(writing, now(), &id, said, entry)).await
    }

    async fn note(
        &self,
        id: &JobId,
        epoch: Option<u64>,
        entries: Vec<AuditEntry>,
    ) -> Result<Option<Notes>, StoreError> {
        let id = id.clone();
        let writer = self.writer()?;
        writer.write_lightly(move |writing| audit::note(writing, now(), &id, epoch, &entries)).await
    }

    async fn audit(&self, job: i64, first: u64, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        self.read(|connection| audit::read(connection, job, first, limit))
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

    async fn request_cancel(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError> {
        let id = id.clone();
        self.writer()?.write(move |writing| write::request_cancel(writing, now(), &id, entry)).await
    }

    async fn request_delete(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError> {
        let id = id.clone();
        self.writer()?.write(move |writing| write::request_delete(writing, now(), &id, entry)).await
    }

    async fn remove(&self, fence: &Fence) -> Result<(), StoreError> {
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

    async fn all_ids(&self) -> Result<Vec<JobId>, StoreError> {
        self.read(read::all_ids)
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
