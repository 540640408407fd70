//! The one thread that writes, with group commit.
//!
//! Operations queue up while the disk syncs; the next transaction takes all of them. A light one does not wait for the disk: it
//! outlives this process as soon as it is committed, and a failing power supply with the next one that waits; so it never
//! shares a transaction with those. Each runs in a savepoint of its own,
//! so a failing one undoes itself alone, and is answered only after the COMMIT. A failed COMMIT is told to every one
//! of the group; a failed sync ends the writer, because what is on the disk is then unknown.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot, watch};

use super::counts::Counts;
use crate::audit::SigningKey;
use crate::job::JobId;
use crate::store::StoreError;
use crate::store::watch::Watchers;

/// Operations that may wait for the writer; callers beyond it wait their turn.
const QUEUE: usize = 1024;
/// Operations in one commit: bounds how long the first of them waits.
const GROUP: usize = 256;

/// What an operation may touch.
pub(super) struct Writing<'a> {
    pub(super) connection: &'a Connection,
    /// Jobs to wake after the commit.
    pub(super) touched: Vec<JobId>,
    pub(super) counts: Counts,
    /// Signs the heads of audits.
    pub(super) signer: &'a SigningKey,
}

/// What an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// The disk.
    Synced,
    /// The kernel.
    Light,
}

type Work<T> = Box<dyn FnOnce(&mut Writing<'_>) -> Result<T, StoreError> + Send>;

/// An operation whose result type is hidden from the queue.
trait Operation: Send {
    fn weight(&self) -> Weight;
    /// Does it, inside a savepoint; `false` means undo it.
    fn run(&mut self, writing: &mut Writing<'_>) -> bool;
    /// Answers, after the commit or its failure.
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

struct Pending<T> {
    weight: Weight,
    work: Option<Work<T>>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send> Operation for Pending<T> {
    fn weight(&self) -> Weight {
        self.weight
    }

    fn run(&mut self, writing: &mut Writing<'_>) -> bool {
        let result = self.work.take().map(|work| work(writing));
        let succeeded = matches!(result, Some(Ok(_)));
        self.result = result;
        succeeded
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
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
pub(super) struct Writer {
    queue: mpsc::Sender<Box<dyn Operation>>,
    broken: watch::Receiver<Option<String>>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        connection: Connection,
        watchers: Watchers,
        counts: watch::Sender<Counts>,
        signer: Arc<SigningKey>,
    ) -> Result<(Self, std::thread::JoinHandle<()>), std::io::Error> {
        let (queue, operations) = mpsc::channel(QUEUE);
        let (broken_sender, broken) = watch::channel(None);
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || {
            let broken = broken_sender;
            Thread { connection, watchers, counts, broken, signer }.work(operations);
        })?;
        Ok((Self { queue, broken }, thread))
    }

    /// Does something in the next commit.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.send(Weight::Synced, work).await
    }

    /// The same, without waiting for the disk.
    pub(super) async fn write_lightly<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.send(Weight::Light, work).await
    }

    async fn send<T: Send + 'static>(
        &self,
        weight: Weight,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let pending = Pending { weight, work: Some(Box::new(work)), result: None, reply };
        let closed = || StoreError::Closed(self.broken.borrow().clone().unwrap_or_else(|| "stopped".into()));
        self.queue.send(Box::new(pending)).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Returns when the writer has given up.
    pub(super) async fn broken(&self) -> String {
        let mut broken = self.broken.clone();
        let reason = broken.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        // It never leaves while it is waited for: without a reason it has panicked.
        reason.unwrap_or_else(|| "the store's writer has died".into())
    }
}

struct Thread {
    connection: Connection,
    watchers: Watchers,
    counts: watch::Sender<Counts>,
    broken: watch::Sender<Option<String>>,
    signer: Arc<SigningKey>,
}

/// The operations, and the one that was taken and belongs to the next group.
struct Queue {
    operations: mpsc::Receiver<Box<dyn Operation>>,
    held: Option<Box<dyn Operation>>,
}

impl Queue {
    fn first(&mut self) -> Option<Box<dyn Operation>> {
        self.held.take().or_else(|| self.operations.blocking_recv())
    }

    /// One more that is there already and may share a transaction of this weight.
    fn next(&mut self, weight: Weight) -> Option<Box<dyn Operation>> {
        if self.held.is_some() {
            return None;
        }
        let operation = self.operations.try_recv().ok()?;
        if weight == Weight::Light && operation.weight() == Weight::Synced {
            self.held = Some(operation);
            return None;
        }
        Some(operation)
    }
}

impl Thread {
    fn work(self, operations: mpsc::Receiver<Box<dyn Operation>>) {
        let mut queue = Queue { operations, held: None };
        while let Some(first) = queue.first() {
            let mut group = vec![first];
            let outcome = self.transaction(&mut group, &mut queue);
            let failure = match outcome {
                Ok(writing) => {
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
            for operation in group {
                operation.answer(failure.as_ref().map(copy));
            }
            if let Some(error) = failure.filter(is_fatal) {
                self.broken.send_replace(Some(error.to_string()));
                return;
            }
        }
    }

    fn transaction(
        &self,
        group: &mut Vec<Box<dyn Operation>>,
        queue: &mut Queue,
    ) -> Result<Writing<'_>, rusqlite::Error> {
        let weight = group.first().map_or(Weight::Synced, |first| first.weight());
        // Not in the transaction: there the level can't be changed.
        self.connection.pragma_update(
            None,
            "synchronous",
            if weight == Weight::Light { "NORMAL" } else { "FULL" },
        )?;
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut writing = Writing {
            connection: &self.connection,
            touched: Vec::new(),
            counts: *self.counts.borrow(),
            signer: &self.signer,
        };
        let done = self
            .run_all(group, queue, &mut writing, weight)
            .and_then(|()| self.connection.execute_batch("COMMIT"));
        if let Err(error) = done {
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            return Err(error);
        }
        Ok(writing)
    }

    fn run_all(
        &self,
        group: &mut Vec<Box<dyn Operation>>,
        queue: &mut Queue,
        writing: &mut Writing<'_>,
        weight: Weight,
    ) -> Result<(), rusqlite::Error> {
        let mut next = 0;
        while let Some(operation) = group.get_mut(next) {
            let (touched, counts) = (writing.touched.len(), writing.counts);
            self.connection.prepare_cached("SAVEPOINT one")?.execute([])?;
            if !operation.run(writing) {
                self.connection.prepare_cached("ROLLBACK TO one")?.execute([])?;
                writing.touched.truncate(touched);
                writing.counts = counts;
            }
            self.connection.prepare_cached("RELEASE one")?.execute([])?;
            next += 1;
            if next < GROUP
                && let Some(operation) = queue.next(weight)
            {
                group.push(operation);
            }
        }
        Ok(())
    }
}

/// rusqlite's errors can't be cloned; each caller of a failed group gets its own with the same code.
fn copy(error: &rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            StoreError::Database(rusqlite::Error::SqliteFailure(*code, text.clone()))
        }
        other => StoreError::Closed(other.to_string()),
    }
}

/// Full, locked and read-only pass; a failed read, write or sync does not.
fn is_fatal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// How long the writer waits for another program that holds the database.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
