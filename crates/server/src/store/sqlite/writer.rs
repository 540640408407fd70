//! The one thread that writes, with group commit.
//!
//! Operations queue up while the disk syncs; the next transaction takes all of them. Each runs in a savepoint of its own, so a
//! failing one undoes itself alone, and is answered only after the COMMIT. A failed COMMIT fails the whole group; a failed sync
//! ends the writer, because the content of the disk is then unknown.
//!
//! A light operation does not wait for the disk. Once committed it survives the death of this process; it survives a power cut
//! only after the next synced commit. A light one may join a synced group, but a synced one never joins a light group.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use super::counts::Counts;
use super::errors::{copy, is_fatal};
use super::log_reserve::LogReserve;
use crate::clock::Clock;
use crate::job::JobId;
use crate::store::rules::{StoreRules, WriteTime};
use crate::store::sealing::StoreSealer;
use crate::store::watch::Watchers;
use crate::store::write_weight::WriteWeight;
use crate::store::{AuditSigner, StoreError};

/// Operations that may wait for the writer; callers beyond it wait their turn.
const MAX_QUEUED_WRITES: usize = 1024;
/// Operations in one commit: bounds how long the first of them waits.
const MAX_GROUPED_WRITES: usize = 256;

/// The open transaction, as an operation sees it.
pub(super) struct Writing<'a> {
    pub(super) connection: &'a Connection,
    /// Jobs to wake after the commit.
    pub(super) touched: Vec<JobId>,
    pub(super) counts: Counts,
    tools: &'a SqliteTools,
}

/// The keys and the clock of a store.
pub(super) struct SqliteTools {
    pub(super) signer: AuditSigner,
    pub(super) sealer: Arc<StoreSealer>,
    pub(super) clock: Clock,
}

impl<'a> Writing<'a> {
    /// Returns the rules with the present time.
    pub(super) fn rules(&self) -> StoreRules<'a> {
        StoreRules { now: WriteTime::of(&self.tools.clock), signer: &self.tools.signer }
    }

    /// Returns the sealer of values that clients entrust to a job.
    pub(super) fn sealer(&self) -> &'a StoreSealer {
        &self.tools.sealer
    }
}

type WriteWork<T> = Box<dyn FnOnce(&mut Writing<'_>) -> Result<T, StoreError> + Send>;

/// An operation whose result type is hidden from the queue.
trait WriteOperation: Send {
    fn weight(&self) -> WriteWeight;
    /// Runs inside a savepoint. Returns false if the savepoint is to be undone.
    fn run(&mut self, writing: &mut Writing<'_>) -> bool;
    /// Sends the answer. Called after the commit, or with its failure.
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

struct PendingWrite<T> {
    weight: WriteWeight,
    work: Option<WriteWork<T>>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send> WriteOperation for PendingWrite<T> {
    fn weight(&self) -> WriteWeight {
        self.weight
    }

    fn run(&mut self, writing: &mut Writing<'_>) -> bool {
        let result = self.work.take().map(|work| work(writing));
        let succeeded = matches!(result, Some(Ok(_)));
        self.result = result;
        succeeded
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        // A rule's own error stands even if the commit failed too. A success counts only if the commit succeeded.
        let result = match (self.result, failure) {
            (Some(Ok(_)) | None, Some(failure)) => Err(failure),
            (Some(result), _) => result,
            (None, None) => Err(StoreError::Closed("not run".into())),
        };
        // The caller may have gone away; the commit stands.
        let _ = self.reply.send(result);
    }
}

/// Sends operations to the thread. Dropping the last one ends it.
#[derive(Clone)]
pub(super) struct SqliteWriter {
    queue: mpsc::Sender<Box<dyn WriteOperation>>,
    broken: watch::Receiver<Option<String>>,
}

impl SqliteWriter {
    /// Starts the thread, which owns the connection from then on.
    pub(super) fn start(
        connection: Connection,
        reserve: LogReserve,
        watchers: Watchers,
        counts: watch::Sender<Counts>,
        tools: SqliteTools,
    ) -> Result<(Self, std::thread::JoinHandle<()>), std::io::Error> {
        let (queue, operations) = mpsc::channel(MAX_QUEUED_WRITES);
        let (broken_sender, broken) = watch::channel(None);
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || {
            let broken = broken_sender;
            WriterThread { connection, watchers, counts, broken, tools }.work(operations, reserve);
        })?;
        Ok((Self { queue, broken }, thread))
    }

    /// Runs an operation in the next commit.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.send(WriteWeight::Synced, work).await
    }

    /// Runs an operation without waiting for the disk.
    pub(super) async fn write_lightly<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.send(WriteWeight::Light, work).await
    }

    async fn send<T: Send + 'static>(
        &self,
        weight: WriteWeight,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let pending = PendingWrite { weight, work: Some(Box::new(work)), result: None, reply };
        let closed = || StoreError::Closed(self.broken.borrow().clone().unwrap_or_else(|| "stopped".into()));
        self.queue.send(Box::new(pending)).await.map_err(|_| closed())?;
        // A caller that is dropped here does not undo the operation: it may still be committed.
        answer.await.map_err(|_| closed())?
    }

    /// Returns the reason when the writer has stopped for good.
    pub(super) async fn broken(&self) -> String {
        let mut broken = self.broken.clone();
        let reason = broken.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        // The thread does not end while a writer exists, so without a reason it has panicked.
        reason.unwrap_or_else(|| "the store's writer has died".into())
    }
}

/// The thread that owns the connection for writing.
struct WriterThread {
    connection: Connection,
    watchers: Watchers,
    counts: watch::Sender<Counts>,
    broken: watch::Sender<Option<String>>,
    tools: SqliteTools,
}

/// Waiting operations, and one that was taken but belongs to the next group.
struct WriteQueue {
    operations: mpsc::Receiver<Box<dyn WriteOperation>>,
    held: Option<Box<dyn WriteOperation>>,
}

impl WriteQueue {
    fn first(&mut self) -> Option<Box<dyn WriteOperation>> {
        self.held.take().or_else(|| self.operations.blocking_recv())
    }

    /// Returns an operation that waits already and may share a transaction of this weight.
    fn next(&mut self, weight: WriteWeight) -> Option<Box<dyn WriteOperation>> {
        // The held operation comes first in the next group. Taking another one would change the order of writes.
        if self.held.is_some() {
            return None;
        }
        let operation = self.operations.try_recv().ok()?;
        if weight == WriteWeight::Light && operation.weight() == WriteWeight::Synced {
            self.held = Some(operation);
            return None;
        }
        Some(operation)
    }
}

impl WriterThread {
    fn work(self, operations: mpsc::Receiver<Box<dyn WriteOperation>>, mut reserve: LogReserve) {
        let mut queue = WriteQueue { operations, held: None };
        while let Some(first) = queue.first() {
            reserve.keep_up();
            let mut group = vec![first];
            let outcome = self.transaction(&mut group, &mut queue);
            let failure = match outcome {
                Ok(writing) => {
                    // Totals and watchers change only after the COMMIT, or readers would look for rows that are not there yet.
                    self.counts.send_replace(writing.counts);
                    for job in &writing.touched {
                        self.watchers.wake(job);
                    }
                    None
                }
                Err(error) => {
                    tracing::warn!(error = %error, "a commit failed");
                    Some(error)
                }
            };
            // Answers come last: a caller that reads after its answer finds totals and rows as it wrote them.
            for operation in group {
                operation.answer(failure.as_ref().map(copy));
            }
            if let Some(error) = failure.filter(is_fatal) {
                // After a failed sync the kernel may have dropped the pages, and a retry would report success for lost data.
                self.broken.send_replace(Some(error.to_string()));
                return;
            }
        }
    }

    fn transaction(
        &self,
        group: &mut Vec<Box<dyn WriteOperation>>,
        queue: &mut WriteQueue,
    ) -> Result<Writing<'_>, rusqlite::Error> {
        let weight = group.first().map_or(WriteWeight::Synced, |first| first.weight());
        // Set before the transaction: SQLite refuses to change this level inside one.
        self.connection.pragma_update(
            None,
            "synchronous",
            if weight == WriteWeight::Light { "NORMAL" } else { "FULL" },
        )?;
        // IMMEDIATE takes the write lock now. A deferred transaction could fail with SQLITE_BUSY in the middle of a group.
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut writing = Writing {
            connection: &self.connection,
            touched: Vec::new(),
            counts: *self.counts.borrow(),
            tools: &self.tools,
        };
        let done = self
            .run_all(group, queue, &mut writing, weight)
            .and_then(|()| self.connection.execute_batch("COMMIT"));
        #[cfg(test)]
        {
            writing.counts.commits += 1;
        }
        if let Err(error) = done {
            // Some errors make SQLite roll back by itself, and then a ROLLBACK would fail.
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            return Err(error);
        }
        Ok(writing)
    }

    fn run_all(
        &self,
        group: &mut Vec<Box<dyn WriteOperation>>,
        queue: &mut WriteQueue,
        writing: &mut Writing<'_>,
        weight: WriteWeight,
    ) -> Result<(), rusqlite::Error> {
        let mut next = 0;
        while let Some(operation) = group.get_mut(next) {
            // The savepoint undoes only the database; these two are undone by hand.
            let (touched, counts) = (writing.touched.len(), writing.counts);
            self.connection.prepare_cached("SAVEPOINT one")?.execute([])?;
            if !operation.run(writing) {
                self.connection.prepare_cached("ROLLBACK TO one")?.execute([])?;
                writing.touched.truncate(touched);
                writing.counts = counts;
            }
            // Also after ROLLBACK TO, which undoes the changes but leaves the savepoint open.
            self.connection.prepare_cached("RELEASE one")?.execute([])?;
            next += 1;
            // Operations join while the transaction is open: one sync then serves all callers that arrived meanwhile.
            if next < MAX_GROUPED_WRITES
                && let Some(operation) = queue.next(weight)
            {
                group.push(operation);
            }
        }
        Ok(())
    }
}

/// Longest wait for another program that holds the database, for example `sqlite3` in an operator's shell.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
