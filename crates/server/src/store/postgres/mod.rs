//! The store in a PostgreSQL database, which several servers share.
//!
//! Every write locks the rows that it reads, decides by the rules, and commits; a few tasks do that for all writes that wait
//! (`writer`, `group`, `flush`). Commits are announced to other servers (`news`). Each server works on a data folder of its own, so it
//! knows that earlier servers of the same folder are dead; those of other folders it takes over from when their leases run out.
//!
//! The store has a runtime of its own: its connections live however busy the server is, and its answers can be awaited on any runtime.

mod added_texts;
mod codecs;
mod columns;
mod connection;
mod copying;
mod errors;
mod flush;
mod group;
mod news;
mod operations;
mod read;
mod readers;
mod sandboxes;
mod saving;
mod schema;
mod texts;
mod tls;
mod totals;
mod url;
mod write_tools;
mod writer;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use sandyard_api::JobIdPrefix;
use sandyard_memory::ContentDigest;
use sandyard_protocol::{JournalEntry, JournalRow, OutputStream};
use sandyard_sandbox::driver::SandboxId;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

pub(super) use self::copying::PostgresCopy;
pub use self::url::{BadPostgresUrl, PostgresUrl};

use self::codecs::SqlValue;
use self::connection::{Connected, Connector, answered};
use self::news::NewsReader;
use self::readers::Readers;
use self::write_tools::{CommitEffects, PostgresTools};
use self::writer::{GroupedWrite, PostgresWriter};
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
use crate::key_file::load_or_create_key;

/// Tasks that write: while one waits for the database's disk, the other computes.
const WRITERS: usize = 2;
/// Leases have a task of their own, so that they are renewed however many writes wait.
const LEASE_WRITERS: usize = 1;

/// Earlier servers of this place are dead: their jobs and sandboxes are free for this one at once.
const TAKE_PLACE: [&str; 3] = [
    "UPDATE job_states SET lease_owner = NULL WHERE open AND lease_place = $1 AND lease_owner IS NOT NULL",
    "UPDATE sandboxes SET owner = NULL WHERE place = $1 AND owner IS NOT NULL",
    "DELETE FROM owners WHERE place = $1",
];

/// The database of one yard, shared with other servers.
pub(crate) struct PostgresStore {
    readers: Readers,
    writer: PostgresWriter,
    leases: PostgresWriter,
    effects: CommitEffects,
    signer: AuditSigner,
    sealer: Arc<StoreSealer>,
    queue_grew: Arc<Notify>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    _runtime: StoreRuntime,
    /// Holds the data folder until the store is dropped.
    _lock: YardLock,
}

impl PostgresStore {
    /// Opens the database for a data folder, whose lock the caller has taken, and makes its tables if they are missing. Blocks.
    pub(crate) fn open(
        url: &PostgresUrl,
        data: &Path,
        lock: YardLock,
        signer: AuditSigner,
        clock: Clock,
    ) -> Result<Self, OpenStoreError> {
        let sealer = Arc::new(StoreSealer::load_or_create(&data.join("store.key"))?);
        let place = hex::encode(&load_or_create_key(&data.join("server.id"))?[..8]);
        let runtime = StoreRuntime::start().map_err(OpenStoreError::Thread)?;
        let server = crate::job::random_id().map_err(StoreError::from)?.to_string();
        let tools = PostgresTools { signer, sealer, clock, place, server };
        let handle = runtime.handle().ok_or_else(|| StoreError::Closed("no runtime".into()))?;
        // On a thread of its own: the caller may be a task, which must not wait for another runtime.
        let opened = std::thread::scope(|scope| {
            let opening = scope.spawn(|| handle.block_on(open(url, tools, handle.clone())));
            opening.join().map_err(|_| OpenStoreError::from(StoreError::Closed("opening panicked".into())))?
        });
        let OpenParts { connector, tools, effects, queue_grew, writers, tasks } = opened?;
        let [writer, leases] = writers;
        Ok(Self {
            readers: Readers::new(connector),
            writer,
            leases,
            effects,
            signer: tools.signer.clone(),
            sealer: Arc::clone(&tools.sealer),
            queue_grew,
            tasks,
            _runtime: runtime,
            _lock: lock,
        })
    }

    async fn write<W: GroupedWrite>(&self, write: W) -> Result<W::Answer, StoreError>
    where
        W::Answer: Sync,
    {
        self.writer.write(write).await
    }
}

/// The runtime of a store. It may be dropped by a task of another one, which must not wait for its end.
struct StoreRuntime(Option<Runtime>);

impl StoreRuntime {
    fn start() -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("store-postgres").enable_all().build().map(Some).map(Self)
    }

    fn handle(&self) -> Option<tokio::runtime::Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for StoreRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The parts that are made on the store's runtime.
struct OpenParts {
    connector: Arc<Connector>,
    tools: Arc<PostgresTools>,
    effects: CommitEffects,
    queue_grew: Arc<Notify>,
    /// Of jobs, and of leases.
    writers: [PostgresWriter; 2],
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

async fn open(
    url: &PostgresUrl,
    tools: PostgresTools,
    runtime: tokio::runtime::Handle,
) -> Result<OpenParts, OpenStoreError> {
    let tools = Arc::new(tools);
    let connector = Arc::new(Connector::new(url, runtime.clone())?);
    let mut first = connector.connect().await?;
    schema::migrate(&mut first.client).await?;
    check_key(&first, tools.sealer.fingerprint()).await?;
    for sql in TAKE_PLACE {
        answered(first.query(sql, &[SqlValue::text(&tools.place)])).await?;
    }
    let effects = CommitEffects { watchers: Watchers::default(), totals: Arc::new(Mutex::default()) };
    let queue_grew = Arc::new(Notify::new());
    let news = NewsReader {
        connector: Arc::clone(&connector),
        effects: effects.clone(),
        server: tools.server.clone(),
        queue_grew: Arc::clone(&queue_grew),
    };
    // Counted before the first write of this server.
    let listening = news.listen().await?;
    let mut tasks = vec![runtime.spawn(news.follow(listening))];
    let (writer, started) = PostgresWriter::start(WRITERS, &connector, &tools, &effects, &runtime)?;
    tasks.extend(started);
    let (leases, started) = PostgresWriter::start(LEASE_WRITERS, &connector, &tools, &effects, &runtime)?;
    tasks.extend(started);
    Ok(OpenParts { connector, tools, effects, queue_grew, writers: [writer, leases], tasks })
}

/// Refuses a server with another key than that of the yard: it could not read the requests of jobs that others have accepted.
async fn check_key(connected: &Connected, fingerprint: &[u8]) -> Result<(), OpenStoreError> {
    // The first server's counts. `DO NOTHING` keeps a second one that comes at the same time from failing.
    let put = "INSERT INTO yard (only_row, key_fingerprint) VALUES (true, $1) ON CONFLICT DO NOTHING";
    answered(connected.query(put, &[SqlValue::Bytes(fingerprint.to_vec())])).await?;
    let found = answered(connected.query("SELECT key_fingerprint FROM yard", &[])).await?;
    let known: &[u8] = found.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
    if known == fingerprint { Ok(()) } else { Err(OpenStoreError::OtherKey) }
}

impl Drop for PostgresStore {
    /// Ends the connections. The database undoes what was not committed.
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn job(&self, id: &JobId) -> Result<Option<JobRow>, StoreError> {
        Ok(read::job(&self.readers, id).await?.filter(|row| !row.delete_requested))
    }

    async fn any_job(&self, id: &JobId) -> Result<Option<JobRow>, StoreError> {
        read::job(&self.readers, id).await
    }

    async fn is_current(&self, id: &JobId, revision: u64) -> Result<bool, StoreError> {
        read::is_current(&self.readers, id, revision).await
    }

    async fn request(&self, id: &JobId) -> Result<Option<StoredRequest>, StoreError> {
        read::request(&self.readers, &self.sealer, id).await
    }

    async fn list(
        &self,
        filter: &JobFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<JobRow>, StoreError> {
        read::list(&self.readers, filter, before, limit).await
    }

    async fn events(&self, id: &JobId, after: u64, limit: usize) -> Result<Vec<EventRow>, StoreError> {
        read::events(&self.readers, id, None, after, limit).await
    }

    async fn events_of_kind(
        &self,
        id: &JobId,
        kind: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRow>, StoreError> {
        read::events(&self.readers, id, Some(kind), after, limit).await
    }

    async fn chunks(
        &self,
        job: i64,
        stream: OutputStream,
        from: u64,
        limit: usize,
    ) -> Result<Vec<ChunkRow>, StoreError> {
        read::chunks(&self.readers, job, stream, from, limit).await
    }

    async fn chunks_after(
        &self,
        job: i64,
        stream: OutputStream,
        offset: u64,
    ) -> Result<Vec<ChunkRow>, StoreError> {
        read::chunks_after(&self.readers, job, stream, offset).await
    }

    async fn insert(&self, job: InsertJob, claim: Option<JobClaim>) -> Result<Inserted, StoreError> {
        self.write(operations::Insert { job, claim }).await
    }

    async fn queued(&self, after: i64, limit: usize) -> Result<Vec<JobRow>, StoreError> {
        read::queued(&self.readers, after, limit).await
    }

    async fn claim_queued(&self, id: &JobId, claim: JobClaim) -> Result<Option<JobRow>, StoreError> {
        self.write(operations::ClaimQueued { id: id.clone(), claim }).await
    }

    async fn claim_orphans(&self, owner: &str, ttl_ms: u64) -> Result<Vec<JobRow>, StoreError> {
        self.leases.write(operations::ClaimOrphans { owner: owner.to_owned(), ttl_ms }).await
    }

    async fn renew(&self, owner: &str, ttl_ms: u64) -> Result<Vec<JobFence>, StoreError> {
        self.leases.write(operations::Renew { owner: owner.to_owned(), ttl_ms }).await
    }

    async fn release_all(&self, owner: &str) -> Result<(), StoreError> {
        self.leases.write(operations::ReleaseAll { owner: owner.to_owned() }).await
    }

    async fn requeue(&self, fence: &JobFence, reason: String) -> Result<(), StoreError> {
        self.write(operations::Requeue { fence: fence.clone(), reason }).await
    }

    async fn commit(&self, fence: &JobFence, changes: Vec<Change>) -> Result<JobRow, StoreError> {
        self.write(operations::Commit { fence: fence.clone(), changes }).await
    }

    async fn append(
        &self,
        fence: &JobFence,
        number: u64,
        entry: Box<JournalEntry>,
    ) -> Result<Appended, StoreError> {
        self.write(operations::Append { fence: fence.clone(), number, entry }).await
    }

    async fn say(&self, id: &JobId, said: Box<JournalEntry>, entry: AuditEntry) -> Result<Said, StoreError> {
        self.write(operations::Say { id: id.clone(), said, entry }).await
    }

    async fn note(
        &self,
        id: &JobId,
        epoch: Option<u64>,
        entries: Vec<AuditEntry>,
    ) -> Result<Option<NotedEntries>, StoreError> {
        self.write(operations::Note { id: id.clone(), epoch, entries }).await
    }

    async fn audit(&self, of: AuditOf, first: u64, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        read::audit(&self.readers, of, first, limit).await
    }

    async fn note_yard(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.write(operations::NoteYard { entry }).await
    }

    async fn yard_audit(&self) -> Result<AuditRow, StoreError> {
        let found = self.readers.query_one(group::YARD_AUDIT, &[]).await?;
        let end = found.as_ref().map(group::read_yard_audit).transpose()?;
        Ok(end.map_or_else(|| self.signer.empty_yard_audit(), |(_, end)| end))
    }

    async fn journal(
        &self,
        job: i64,
        first: u64,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<JournalRow>, StoreError> {
        read::journal(&self.readers, job, first, limit, bytes).await
    }

    async fn keep_texts(
        &self,
        id: &JobId,
        epoch: Option<u64>,
        texts: Vec<NewText>,
    ) -> Result<Option<()>, StoreError> {
        self.write(texts::KeepTexts { id: id.clone(), epoch, texts }).await
    }

    async fn texts(&self, job: i64, first: u64, limit: usize) -> Result<Vec<TextRow>, StoreError> {
        texts::from(&self.readers, job, first, limit).await
    }

    async fn texts_of(
        &self,
        job: i64,
        path: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<TextRow>, StoreError> {
        texts::of_path(&self.readers, job, path, before, limit).await
    }

    async fn texts_at(&self, job: i64, entry: u64, limit: usize) -> Result<Vec<TextRow>, StoreError> {
        texts::at_entry(&self.readers, job, entry, limit).await
    }

    async fn text(&self, job: i64, digest: ContentDigest) -> Result<Option<StoredText>, StoreError> {
        texts::body(&self.readers, job, digest).await
    }

    async fn request_cancel(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError> {
        self.write(operations::RequestCancel { id: id.clone(), entry }).await
    }

    async fn request_delete(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError> {
        self.write(operations::RequestDelete { id: id.clone(), entry }).await
    }

    async fn remove(&self, fence: &JobFence) -> Result<(), StoreError> {
        self.write(operations::Remove { fence: fence.clone() }).await
    }

    async fn retained(&self) -> Result<Retained, StoreError> {
        let oldest_ms = read::oldest_end(&self.readers).await?;
        Ok(Retained { bytes: self.effects.totals.lock().bytes(), oldest_ms })
    }

    async fn ended(&self) -> Result<Vec<EndedJob>, StoreError> {
        read::ended(&self.readers).await
    }

    async fn open_jobs(&self) -> Result<Vec<JobRow>, StoreError> {
        read::open_jobs(&self.readers).await
    }

    async fn ids_beginning(&self, prefix: &JobIdPrefix, limit: usize) -> Result<Vec<JobId>, StoreError> {
        read::ids_beginning(&self.readers, prefix, limit).await
    }

    async fn all_ids(&self) -> Result<Vec<JobId>, StoreError> {
        read::all_ids(&self.readers).await
    }

    async fn sandbox(&self, id: &SandboxId) -> Result<Option<SandboxRow>, StoreError> {
        let found = self.readers.query_one(&sandboxes::BY_ID, &[SqlValue::text(id.as_str())]).await?;
        found.as_ref().map(sandboxes::read).transpose()
    }

    async fn sandboxes(&self) -> Result<Vec<SandboxRow>, StoreError> {
        self.readers.query(&sandboxes::ALL, &[]).await?.iter().map(sandboxes::read).collect()
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), StoreError> {
        self.write(operations::RemoveSandbox { sandbox: id.clone() }).await
    }

    fn counts(&self) -> StateCounts {
        self.effects.totals.lock().states()
    }

    fn watch(&self, id: &JobId) -> JobWatch {
        self.effects.watchers.watch(id)
    }

    async fn queue_grew(&self) {
        self.queue_grew.notified().await;
    }

    /// Never: a database that is out of reach may come back, and what it has answered is on its disk.
    async fn broken(&self) -> String {
        std::future::pending().await
    }
}

#[cfg(test)]
#[path = "postgres_tests.rs"]
mod tests;
